"""The order in which traversal verification gives up the nodes of a tree, for a batch of different trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

import torch
from torch import Tensor

from specproof.rules.family import Families


class Turn(NamedTuple):
    """One node's turn in one tree: its children were given up, now it is tested and given up itself.

    Attributes:
        node: the node.
        parent: row of its parent.
        later: the sibling after it; N if it is the last.
        depth: of the parent.
        elder: whether it has an elder sibling.
        entered: (node, row of its parent) for the nodes whose subtree begins with this turn, from above.
    """

    node: int
    parent: int
    later: int
    depth: int
    elder: bool
    entered: tuple[tuple[int, int], ...]


class Turns(NamedTuple):
    """One turn of every tree; [B] long each. A tree without a turn left has nodes N and rows N+1.

    Attributes:
        node, parent, later, depth: see `Turn`.
        elder: [B] bool, or None if no tree's node has an elder sibling.
        last: whether every tree's node is the last among its siblings.
        entered: pairs as in `Turn`, one for each level to go down.
    """

    node: Tensor
    parent: Tensor
    later: Tensor
    depth: Tensor
    elder: Tensor | None
    last: bool
    entered: list[tuple[Tensor, Tensor]]


def turns(trees: Sequence[Families], nodes: int, device: torch.device) -> Iterator[Turns]:
    """The turns of a batch of trees with at most `nodes` nodes, side by side."""
    distinct = {family: number for number, family in enumerate(dict.fromkeys(trees))}
    index = torch.tensor([distinct[family] for family in trees], device=device)
    none = Turn(nodes, nodes + 1, nodes, 0, False, ())
    table = list(zip_longest(*[_turns(family, nodes) for family in distinct], fillvalue=none))
    levels = max((len(turn.entered) for each in table for turn in each), default=0)
    numbers = torch.tensor([[_numbers(turn, levels, nodes) for turn in each] for each in table], device=device)
    for each, columns in zip(table, numbers, strict=True):
        node, parent, later, depth, elder, *entered = columns[index].unbind(1)
        used = 2 * max(len(turn.entered) for turn in each)
        yield Turns(
            node,
            parent,
            later,
            depth,
            elder.bool() if any(turn.elder for turn in each) else None,
            all(turn.later == nodes for turn in each),
            list(zip(entered[:used:2], entered[1:used:2], strict=True)),
        )


@lru_cache(maxsize=1024)
def _turns(families: Families, nodes: int) -> tuple[Turn, ...]:
    order: list[Turn] = []
    entered: list[tuple[int, int]] = []

    def visit(row: int, depth: int) -> None:
        children = families[row]
        for rank, node in enumerate(children):
            entered.append((node, row))
            visit(node + 1, depth + 1)
            later = children[rank + 1] if rank + 1 < len(children) else nodes
            order.append(Turn(node, row, later, depth, rank > 0, tuple(entered)))
            entered.clear()

    visit(0, 0)
    return tuple(order)


def _numbers(turn: Turn, levels: int, nodes: int) -> list[int]:
    padded = [*turn.entered, *[(nodes, nodes + 1)] * (levels - len(turn.entered))]
    return [turn.node, turn.parent, turn.later, turn.depth, turn.elder, *(n for pair in padded for n in pair)]
