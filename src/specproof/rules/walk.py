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
    # What a walk that leaves at each row may still draw: the target without the drafted children.
    rest = target.clone()
    for node, token in enumerate(draft.tokens.unbind(1)):
        parent = parents[:, node]
        # A repeated sibling finds its token already taken, and is reached with probability 0.
        reached[:, node + 1] = reached[batch, parent] * rest[batch, parent, token] * real[:, node]
        rest[batch, parent, token] *= ~real[:, node]
    return Law(reached * rest.sum(-1), lambda at: normalised(pick(rest, at), pick(target, at)))
