"""Typical acceptance, lossy: a drafted token passes if the target finds it likely enough."""

import torch
from torch import Tensor

from specproof.rules.longest import longest_path
from specproof.rules.parameters import DELTA, EPSILON
from specproof.rules.rows import parent_rows, pick
from specproof.types import Draft, Law


def typical(
    target: Tensor, draft: Draft, *, epsilon: float = EPSILON.default, delta: float = DELTA.default
) -> Law:
    """Law of typical acceptance on trees; target is [B, N+1, V].

    A node passes iff target > min(epsilon, delta · exp(-entropy)), with the entropy of its parent's row in
    nats. The longest path that passes is taken, of equally long ones the first, and the extra token comes
    from the target. There is no guarantee on the law; at temperature 0 it is the target's greedy text.

    The values of Medusa's paper are epsilon .09 and delta .3; its code has them exchanged, so that the first
    one never binds. Medusa's rule that the first token is always accepted concerns its root here.

    Source: Cai et al. 2024 (2401.10774), section 2.3.1.
    """
    EPSILON.check(epsilon)
    DELTA.check(delta)
    threshold = (delta * torch.exp(-entropy(target))).clamp(max=epsilon)  # [B, N+1]
    parents = parent_rows(draft)
    batch = torch.arange(len(target), device=target.device)[:, None]
    passes = target[batch, parents, draft.tokens] > threshold[batch, parents]
    return Law(longest_path(draft, passes).to(target.dtype), lambda at: pick(target, at))


def entropy(rows: Tensor) -> Tensor:
    """Entropy of rows [.., V] in nats, [..]."""
    surprise: Tensor = torch.special.entr(rows)
    return surprise.sum(-1)
