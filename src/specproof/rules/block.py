"""Block verification: judge the drafted block jointly; never accepts less than token by token."""

import torch
from torch import Tensor

from specproof.rules.rows import chain_ratios, excess_mass, nodes, residual, token_mass
from specproof.types import Draft, Law


def block(target: Tensor, draft: Draft) -> Law:
    """Law of block verification on chains; target is [B, N+1, V].

    With weight 1 at the root and weight_i = min(1, weight_{i-1} · target/draft of token i), a block that may
    end at node i does so with probability left / (left + 1 - weight_i), where left is the mass of
    (weight_i · target - draft)⁺ at that node. The longest end that passes is taken.

    Source: Sun et al. 2024 (2403.10444), algorithm 2.
    """
    real = nodes(draft)
    weight = _weights(chain_ratios(target, draft, real))  # [B, N+1]
    left = _left(target, draft, real, weight)
    whole = left + (1 - weight)
    # It is 0 only where weight is 1 and the rows are equal: the block may surely go that far.
    stop = torch.where(whole > 0, left / whole, 1)  # so far, whether it may end there
    stop[:, 1:] *= real  # the root always passes; padding never does
    later = (1 - stop).flip(1).cumprod(1).flip(1)  # no end at row i or later passes
    stop[:, :-1] *= later[:, 1:]
    return Law(stop, lambda at: residual(target, draft, at, weight))


def _weights(ratios: Tensor) -> Tensor:
    """Weight of each node's path, [B, N+1]: the likelihood ratio, capped at 1 at every node on the way."""
    weights = [ratios.new_ones(len(ratios))]
    for node_ratio in ratios.unbind(1):
        weights.append((weights[-1] * node_ratio).clamp_(max=1))
    return torch.stack(weights, 1)


def _left(target: Tensor, draft: Draft, real: Tensor, weight: Tensor) -> Tensor:
    """Mass of (weight · target - draft)⁺ in each row, [B, N+1]; 1 for the root, where the block surely may end."""
    # Nothing is drawn below the last node, so its whole weight is left. Rows of padding are not used.
    inner, shares = slice(1, -1), weight[:, 1:-1]
    if draft.rows is None:
        mass = shares * (1 - token_mass(target[:, inner], draft.tokens[:, 1:])).clamp(min=0)
    else:
        mass = excess_mass(target[:, inner], draft.rows[:, inner], shares)
    left = weight.clone()
    left[:, inner] = torch.where(real[:, 1:], mass, shares)
    return left
