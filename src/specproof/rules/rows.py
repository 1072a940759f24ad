"""What the torch rules share: picking rows, padding, and the residual."""

import torch
from torch import Tensor

from specproof.types import Draft


def nodes(draft: Draft) -> Tensor:
    """[B, N] bool: true for nodes, false for padding."""
    sizes = torch.tensor([len(tree) for tree in draft.trees], device=draft.tokens.device)
    return torch.arange(draft.tokens.shape[1], device=draft.tokens.device) < sizes[:, None]


def parent_rows(draft: Draft) -> Tensor:
    """[B, N] long: the row each node was judged by, which is its parent's (0 root; padding gets 0)."""
    width = draft.tokens.shape[1]
    padded = [[p + 1 for p in tree.parents] + [0] * (width - len(tree)) for tree in draft.trees]
    return torch.tensor(padded, dtype=torch.long, device=draft.tokens.device).reshape(len(padded), width)


def drawn_rows(target: Tensor, draft: Draft) -> Tensor:
    """The rows the nodes of a chain were drawn from, [B, N+1, V]: one-hot for a point draft.

    Rows nothing was drawn from (a leaf's, padding) are zero. The residual at a leaf is then the whole target
    row, so that the bonus token after full acceptance needs no case of its own.
    """
    used = torch.cat([nodes(draft), nodes(draft).new_zeros(len(draft.trees), 1)], 1)  # [B, N+1]
    if draft.rows is not None:
        return draft.rows.to(target.dtype) * used[..., None]
    one_hot = torch.zeros_like(target)
    one_hot[:, :-1].scatter_(-1, draft.tokens[..., None], used[:, :-1, None].to(target.dtype))
    return one_hot


def pick(rows: Tensor, at: Tensor) -> Tensor:
    """Row `at[b]` of each sequence: [B, R, V] and [B] to [B, V]."""
    return rows[torch.arange(len(rows), device=rows.device), at]


def token_mass(rows: Tensor, tokens: Tensor) -> Tensor:
    """Probability of token i in row i: [B, N, V] and [B, N] to [B, N]."""
    return rows.gather(-1, tokens[..., None])[..., 0]


def ratio(target: Tensor, drawn: Tensor) -> Tensor:
    """Target / drawn for the drafted tokens, finite; 0 where the target has no mass, or where nothing is drawn.

    The latter are padding, or tokens that fill places after a row ran out of others: they are surely refused.
    """
    # A product with a weight of 0 must be 0, so a quotient too large for the dtype may not become infinite.
    return torch.where(drawn > 0, target / drawn, 0).clamp(max=torch.finfo(target.dtype).max)


def normalised(rows: Tensor, fallback: Tensor) -> Tensor:
    """Rows [.., V] divided by their sum; `fallback` where nothing is left.

    Nothing is left only where stopping has probability 0 (equal rows), yet rounding can still lead there.
    """
    total = rows.sum(-1, keepdim=True)
    return torch.where(total > 0, rows / total, fallback)
