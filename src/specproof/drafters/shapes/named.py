"""Shapes by name, as the command line gives them."""

from __future__ import annotations

from typing import NamedTuple

from specproof.drafters.shapes.best_first import BestFirst
from specproof.drafters.shapes.expand import Dynamic, Mixed
from specproof.drafters.shapes.sequoia import optimal_tree
from specproof.errors import SpecproofError
from specproof.tree import Tree
from specproof.types import Drawn

# The names, for messages and help. "sequoia" without numbers is measured, see `engine.shape`.
SHAPES = (
    *("chain:N", "dynamic", "dynamic:N", "best_first", "best_first:N", "sequoia", "sequoia:A,B,…"),
    *("mixed", "mixed:N"),
)
# How often a head's first, second, … child of a node is accepted without replacement: roughly what the one for
# the default model gave (0.38, 0.09, 0.05, 0.04; docs/log.md). Other heads have other numbers, but trees of much
# the same shape.
_USUAL = (0.38, 0.10, 0.05, 0.03)
# Levels of such a tree in "mixed", and its share of the nodes. Of 8 nodes a third level gains 2 % more tokens and
# costs one more draft forward, 5 % of a step; and a drawn node is paid for again in drawing and in verification.
_LEVELS, _SHARE = 2, 1 / 2


class Shape(NamedTuple):
    """What a drafter draws, and how."""

    tree: Tree | int | Dynamic | Mixed | BestFirst
    drawn: Drawn


def named_shape(name: str, nodes: int, depth: int | None = None) -> Shape:
    """The shape of that name.

    Args:
        name: "chain:N" of independent tokens; "dynamic" or "best_first" of the likeliest ones, and with ":N" of
            N at most; "sequoia:A,B,…", the best static tree where the first, second, … child is accepted that
            often, without replacement; "mixed", "dynamic" for greedy texts and a smaller such tree for others.
        nodes: most that a step drafts.
        depth: most in a row, if the drafter has a limit.

    Raises:
        SpecproofError: no such shape.
    """
    kind, _, given = name.partition(":")
    try:
        numbers = [float(number) for number in given.split(",")] if given else []
    except ValueError:
        kind, numbers = "", []
    whole = len(numbers) == 1 and numbers[0].is_integer()
    if kind == "chain" and whole:
        return Shape(int(numbers[0]), "iid")
    if kind == "sequoia" and numbers:
        tree = optimal_tree(numbers, nodes, depth)
        return Shape(tree if len(tree) else Tree.chain(1), "without_replacement")
    if kind in ("dynamic", "best_first", "mixed") and (whole or ":" not in name):
        nodes = min([nodes, *map(int, numbers)])
        if kind == "best_first":
            return Shape(BestFirst(nodes), "point")
        usual = Dynamic(nodes=nodes)
        grown = usual if depth is None else Dynamic(min(usual.depth, depth), usual.width, nodes)
        if kind == "mixed":
            fixed = optimal_tree(_USUAL, max(1, int(_SHARE * nodes)), min(_LEVELS, grown.depth))
            return Shape(Mixed(fixed, grown), "without_replacement")
        return Shape(grown, "point")
    raise SpecproofError(f"unknown shape {name!r}; choose one of: {', '.join(SHAPES)}")
