"""The target walk with acceptance thresholds, lossy: a likely enough child is followed whatever the coin."""

import torch
from torch import Tensor

from specproof.rules.parameters import ACCUMULATED, SINGLE
from specproof.rules.rows import nodes, normalised, parent_rows, pick
from specproof.types import Draft, Law


def threshold(
    target: Tensor,
    draft: Draft,
    *,
    single: float = SINGLE.default,
    accumulated: float = ACCUMULATED.default,
) -> Law:
    """Law of threshold acceptance on trees of point drafts; target is [B, N+1, V].

    One coin at each node; its children are asked in their order. A child passes if the target gives it at
    least `single`, or if coin < (target mass of the children so far, its own included) / `accumulated`. Where
    none passes, the extra token comes from the target without the children. Both thresholds 1 give the
    target walk; below 1 there is no guarantee: a token at or above `single` always comes out.

    Source: SGLang, target-only tree verification (speculative_accept_threshold_single and _acc, both 1 there).
    """
    SINGLE.check(single)
    ACCUMULATED.check(accumulated)
    batch = torch.arange(len(target), device=target.device)
    parents, real = parent_rows(draft), nodes(draft)
    reached = target.new_zeros(target.shape[:2])
    reached[:, 0] = 1
    rest = target.clone()  # without the children asked so far
    asked = target.new_zeros(target.shape[:2])  # target mass of those children
    left = target.new_zeros(target.shape[:2])  # coins below this have followed a child
    for node, token in enumerate(draft.tokens.unbind(1)):
        parent = parents[:, node]
        mass = rest[batch, parent, token]  # 0 for a repeated sibling
        asked[batch, parent] += mass * real[:, node]
        bar = torch.where(mass >= single, 1, (asked[batch, parent] / accumulated).clamp(max=1))
        chance = (bar - left[batch, parent]).clamp(min=0) * real[:, node]
        reached[:, node + 1] = reached[batch, parent] * chance
        left[batch, parent] += chance
        rest[batch, parent, token] *= ~real[:, node]
    return Law(reached * (1 - left).clamp(min=0), lambda at: normalised(pick(rest, at), pick(target, at)))
