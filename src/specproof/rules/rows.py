"""What the torch rules share: picking rows, padding, and the residual."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from specproof.types import Draft


def nodes(draft: Draft) -> Tensor:
    """[B, N] bool: true for nodes, false for padding."""
    return torch.arange(draft.tokens.shape[1], device=draft.tokens.device) < sizes(draft)


def sizes(draft: Draft) -> Tensor:
    """[B, 1] long: how many nodes each tree has."""
    return torch.tensor([[len(tree)] for tree in draft.trees], device=draft.tokens.device)


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


def chain_ratios(target: Tensor, draft: Draft, real: Tensor) -> Tensor:
    """Target / drawn for each node of a chain, [B, N], as `ratio` has it; 0 for padding, where `real` is false."""
    mass = token_mass(target[:, :-1], draft.tokens)
    if draft.rows is None:
        return mass * real
    return ratio(mass, token_mass(draft.rows[:, :-1], draft.tokens).to(mass.dtype)) * real


def residual(target: Tensor, draft: Draft, at: Tensor, weight: Tensor | None = None) -> Tensor:
    """(weight · target - drawn)⁺ at row `at[b]` of each chain, normalised, [B, V]; weight [B, N+1] is 1 if None.

    Where nothing was drawn (a leaf), it is the whole target row.
    """
    row, place = pick(target, at), at[:, None]
    used = (place < sizes(draft)).to(row.dtype)
    if draft.rows is None:
        gap = torch.zeros_like(row).scatter_(1, pad(draft.tokens, (0, 1)).gather(1, place), -used)
    else:
        gap = pick(draft.rows, at).to(row.dtype).mul_(-used)
    # In place: new memory would cost more than the arithmetic.
    gap = gap.add_(row) if weight is None else gap.addcmul_(row, weight.gather(1, place))
    return normalised(gap.clamp_(min=0), row)


def excess_mass(target: Tensor, drawn: Tensor, weight: Tensor) -> Tensor:
    """Mass [B, R] of (weight · target - drawn)⁺ in rows [B, R, V]; weight is [B, R]."""
    # Piece by piece, so that what is made on the way never leaves the cache (256 MiB at a time elsewhere).
    rows = max(1, (2**17 if target.device.type == "cpu" else 2**26) // target.shape[-1])
    several = max(1, rows // max(1, target.shape[1]))
    parts = zip(*(each.split(several) for each in (target, drawn, weight[..., None])), strict=True)
    return torch.cat([_excess_mass(part, rows) for part in parts])


def _excess_mass(part: tuple[Tensor, Tensor, Tensor], rows: int) -> Tensor:
    pieces = zip(*(each.split(rows, 1) for each in part), strict=True)
    masses = [(share * owed).sub_(drawn).clamp_(min=0).sum(-1) for owed, drawn, share in pieces]
    return torch.cat(masses, 1)


def pick(rows: Tensor, at: Tensor) -> Tensor:
    """Row `at[b]` of each sequence: [B, R, V] and [B] to [B, V]."""
    first = torch.arange(0, rows.shape[0] * rows.shape[1], rows.shape[1], device=rows.device)
    # Copies whole rows, where indexing with two tensors goes entry by entry.
    return rows.flatten(0, 1).index_select(0, first + at)


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
    """Rows [.., V], which are overwritten, divided by their sum; `fallback` where nothing is left.

    Nothing is left only where stopping has probability 0 (equal rows), yet rounding can still lead there.
    """
    total = rows.sum(-1, keepdim=True)
    if bool((total > 0).all()):  # as a rule; a choice entry by entry would cost as much as all the rest
        return rows.div_(total)
    return torch.where(total > 0, rows / total, fallback)
