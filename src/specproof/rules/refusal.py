"""What refusing children leaves of the rows they were judged by: shared by `siblings` and `traversal`."""

from collections.abc import Sequence

import torch
from torch import Tensor

from specproof.rules.family import Families
from specproof.rules.rows import normalised, pick


def child_table(families: Sequence[Families], width: int) -> Tensor:
    """Children by row and rank, [B, width+1, most children or 1] long on the host; `width` where none is."""
    distinct = {family: number for number, family in enumerate(dict.fromkeys(families))}
    most = max(1, *(len(children) for family in distinct for children in family))
    table = torch.full((len(distinct), width + 1, most), width)
    for place, family in zip(table, distinct, strict=True):
        for row, children in enumerate(family):
            place[row, : len(children)] = torch.tensor(children, dtype=torch.long)
    return table[[distinct[family] for family in families]]


def without(drawn: Tensor, tokens: Tensor) -> Tensor:
    """Rows [M, V] once the tokens [M] were taken out, normalised; all zero where nothing is left."""
    rest = drawn.scatter(-1, tokens[:, None], 0)
    return normalised(rest, rest)


def after_refusals(
    rest: Tensor, drawn: Tensor, tokens: Tensor, children: Tensor, weights: Tensor | None, replaced: bool
) -> Tensor:
    """The law still owed once all children were refused, [B, V].

    Args:
        rest, drawn: target row and drawn row [B, V] at their parent; the latter is not used without children.
        tokens: [B, N] of all nodes.
        children: [B, K] nodes in the order in which they were refused; N where there is none.
        weights: [B, N] weight of the parent when each node was refused; None stands for 1.
        replaced: whether the token of an elder sibling could be drawn again.
    """
    if tokens.shape[1] == 0:
        return rest
    last = tokens.shape[1] - 1
    for child in children.unbind(1):
        present, node = (child <= last)[:, None], child.clamp(max=last)
        scaled = rest if weights is None else pick(weights[..., None], node) * rest
        rest = torch.where(present, normalised((scaled - drawn).clamp_(min=0), rest), rest)
        drawn = drawn if replaced else without(drawn, pick(tokens, node))
    return rest
