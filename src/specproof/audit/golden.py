"""Known expected accepted lengths, as fractions, for rows that do not depend on the context.

Derived in the papers' toys or by exact enumeration; a rule that is lossless but accepts less is caught here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from specproof.tree import Tree
from specproof.types import Drawn

BINARY = ((Fraction(1, 3), Fraction(2, 3)), (Fraction(2, 3), Fraction(1, 3)))
TERNARY = (
    (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)),
    (Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)),
)


class Golden(NamedTuple):
    """One known value: target and draft row, shape, draw, and nodes accepted per round in expectation."""

    rule: str
    case: str
    rows: tuple[tuple[Fraction, ...], tuple[Fraction, ...]]
    tree: Tree
    drawn: Drawn
    accepted: Fraction


# Children per level, and what walk, siblings and traversal accept of such trees without replacement.
_TREES: tuple[tuple[tuple[int, ...], str, str, str], ...] = (
    ((2,), "107/180", "7/9", "7/9"),
    ((1, 1), "115/324", "10/9", "7/6"),
    ((2, 1), "2461/3240", "35/27", "73/54"),
    ((1, 2), "287/648", "32/27", "11/9"),
    ((2, 2), "30709/32400", "112/81", "115/81"),
    ((1, 1, 1), "2195/5832", "38/27", "14/9"),
)


def _chain(rule: str, length: int, accepted: str, rows: object = TERNARY) -> Golden:
    pair, size = (BINARY, "two") if rows is BINARY else (TERNARY, "three")
    return Golden(rule, f"{size} tokens, chain of {length}", pair, Tree.chain(length), "iid", Fraction(accepted))


GOLDEN: tuple[Golden, ...] = (
    _chain("rejection", 2, "10/9", BINARY),
    _chain("block", 2, "11/9", BINARY),
    _chain("rejection", 2, "10/9"),
    _chain("block", 2, "7/6"),
    _chain("rejection", 3, "38/27"),
    _chain("block", 3, "14/9"),
    *(
        Golden(
            rule,
            f"three tokens, children {' x '.join(map(str, levels))}",
            TERNARY,
            Tree.levels(levels),
            "without_replacement",
            Fraction(accepted),
        )
        for levels, *values in _TREES
        for rule, accepted in zip(("walk", "siblings", "traversal"), values, strict=True)
    ),
)
