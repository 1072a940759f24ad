"""The target walk: draw from the target, follow the drafted child that matches, stop where none does.

It never looks at what the tokens were drawn from, so it is lossless for every draft; for point drafts no
lossless rule accepts more.
"""

import torch
from torch import Tensor

from specproof.rules.rows import nodes, normalised, parent_rows, pick
from specproof.types import Draft, Law


def walk(target: Tensor, draft: Draft) -> Law:
    """Law of the target walk on trees; target is [B, N+1, V]. Of equal siblings the first one counts.

    Source: Miao et al. 2023 (2305.09781), section 4.3, naive sampling; EAGLE-2 and SGLang's target-only
    tree verification have the same law.
    """
    batch = torch.arange(len(target), device=target.device)
    parents, real = parent_rows(draft), nodes(draft)
    reached = target.new_zeros(target.shape[:2])
    reached[:, 0] = 1
    twins = (parents[:, :, None] == parents[:, None]) & (draft.tokens[:, :, None] == draft.tokens[:, None])
    # A repeated sibling finds its token already taken, and is reached with probability 0.
    counts = real & ~(twins & real[:, None]).tril(-1).any(-1)
    mass = target[batch[:, None], parents, draft.tokens] * counts  # [B, N]
    for node, parent in enumerate(parents.unbind(1)):
        reached[:, node + 1] = reached[batch, parent] * mass[:, node]
    leave = (1 - torch.zeros_like(reached).scatter_add_(1, parents, mass)).clamp(min=0)

    def extra(at: Tensor) -> Tensor:
        row = pick(target, at)
        # The target without the children drafted there: the minimum takes their tokens out and no others.
        bound = torch.where(real & (parents == at[:, None]), 0, torch.inf).to(row.dtype)
        return normalised(row.scatter_reduce(1, draft.tokens, bound, "amin"), row)

    return Law(reached * leave, extra)
