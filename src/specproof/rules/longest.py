"""Deterministic acceptance: every node passes or fails by itself, and the longest accepted path is taken."""

import torch
from torch import Tensor

from specproof.rules.rows import nodes, parent_rows
from specproof.types import Draft


def longest_path(draft: Draft, passes: Tensor) -> Tensor:
    """Where verification stops, one-hot [B, N+1]: the deepest node all of whose path passes.

    Of equally deep nodes the first one counts. `passes` is [B, N] bool; padding is not read.
    """
    batch = torch.arange(len(passes), device=passes.device)
    parents, real = parent_rows(draft), nodes(draft)
    reached = torch.zeros(len(passes), passes.shape[1] + 1, dtype=torch.bool, device=passes.device)
    depth = torch.zeros_like(reached, dtype=torch.long)
    reached[:, 0] = True
    for node in range(passes.shape[1]):
        parent = parents[:, node]
        reached[:, node + 1] = reached[batch, parent] & passes[:, node] & real[:, node]
        depth[:, node + 1] = depth[batch, parent] + 1
    # argmax gives the first of equal maxima.
    deepest = torch.where(reached, depth, -1).argmax(1)
    return torch.nn.functional.one_hot(deepest, passes.shape[1] + 1)
