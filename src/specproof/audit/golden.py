"""Known expected accepted lengths, as fractions, for rows that do not depend on the context.

Derived in the papers' toys or by exact enumeration; a rule that is lossless but accepts less is caught here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from specproof.tree import Tree

BINARY = ((Fraction(1, 3), Fraction(2, 3)), (Fraction(2, 3), Fraction(1, 3)))
TERNARY = (
    (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)),
    (Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)),
)


class Golden(NamedTuple):
    """One known value: target and draft row, shape, and nodes accepted per round in expectation."""

    rule: str
    case: str
    rows: tuple[tuple[Fraction, ...], tuple[Fraction, ...]]
    tree: Tree
    accepted: Fraction


GOLDEN: tuple[Golden, ...] = (
    Golden("rejection", "two tokens, chain of 2", BINARY, Tree.chain(2), Fraction(10, 9)),
    Golden("block", "two tokens, chain of 2", BINARY, Tree.chain(2), Fraction(11, 9)),
    Golden("rejection", "three tokens, chain of 2", TERNARY, Tree.chain(2), Fraction(10, 9)),
    Golden("block", "three tokens, chain of 2", TERNARY, Tree.chain(2), Fraction(7, 6)),
    Golden("rejection", "three tokens, chain of 3", TERNARY, Tree.chain(3), Fraction(38, 27)),
    Golden("block", "three tokens, chain of 3", TERNARY, Tree.chain(3), Fraction(14, 9)),
)
