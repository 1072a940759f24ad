"""What a user gives an audit: rows and tree shapes, read from text and checked. Needs no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from specproof.errors import SpecproofError
from specproof.tree import Tree

Row = tuple[Fraction, ...]

# Digits are bounded so that no input makes the exact arithmetic slow.
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:e[+-]?[0-9]{1,2})?|[+-]?[0-9]{1,40}/[0-9]{1,40}", re.I
)
# More nodes cannot be enumerated anyhow.
_MOST_NODES = 24


def parse_row(text: str, which: str) -> Row:
    """Numbers between commas, decimals or fractions, each taken exactly: "0.6,0.3,0.1" or "1/3,2/3".

    Raises:
        SpecproofError: nothing there, or an entry that is no number; `which` names the row in the message.
    """
    if not text.strip():
        raise SpecproofError(f"the {which} row is empty: give probabilities with commas between, like 0.6,0.3,0.1")
    row = []
    for place, entry in enumerate(text.split(","), start=1):
        try:
            if not _NUMBER.fullmatch(entry.strip()):
                raise ValueError
            row.append(Fraction(entry.strip()))
        except (ValueError, ZeroDivisionError):
            shown = entry if len(entry) <= 40 else entry[:40] + "…"
            raise SpecproofError(
                f"{which} entry {place} is {shown!r}, not a number: give a decimal or a fraction from 0 to 1 "
                "like 0.3 or 1/3, with 40 digits at most"
            ) from None
    return tuple(row)


def parse_tree(text: str) -> Tree:
    """A shape: "chain:3", children per level "2x1", or parents, one a node, "-1,-1,0" (also "parents:-1,-1,0").

    Raises:
        SpecproofError: none of these, a parent after its child, no node or too many.
    """
    kind, _, rest = text.strip().rpartition(":")
    try:
        numbers = [int(entry) for entry in re.split("[,x]" if not kind else ",", rest)]
    except ValueError:
        numbers = []
    wrong = SpecproofError(
        f"tree {text!r} is not understood: give chain:3, children per level like 2x1, or the parent of each node "
        f"(-1 for the root) like parents:-1,-1,0; {_MOST_NODES} nodes at most"
    )
    if kind == "chain" and len(numbers) == 1 and 0 < numbers[0] <= _MOST_NODES:
        return Tree.chain(numbers[0])
    if not kind and "," not in rest and numbers and all(0 < number <= _MOST_NODES for number in numbers):
        nodes, level = 0, 1
        for number in numbers:
            level *= number
            nodes += level
            if nodes > _MOST_NODES:
                raise wrong
        return Tree.levels(tuple(numbers))
    if (kind == "parents" or (not kind and "x" not in rest)) and 0 < len(numbers) <= _MOST_NODES:
        return Tree(tuple(numbers))
    raise wrong


def pair(target: Sequence[Fraction], draft: Sequence[Fraction]) -> tuple[Row, Row]:
    """Both rows, checked.

    Raises:
        SpecproofError: a row that is no distribution, or rows of different lengths.
    """
    rows = distribution(target, "target"), distribution(draft, "draft")
    if len(target) != len(draft):
        raise SpecproofError(
            f"the target row has {len(target)} entries and the draft row {len(draft)}: give one each for the same "
            "tokens (0 where a model never says it)"
        )
    return rows


def distribution(row: Sequence[Fraction], which: str) -> Row:
    """The row, if it is a law; `which` names it in the error."""
    if not row:
        raise SpecproofError(f"the {which} row is empty: give at least one probability")
    for place, mass in enumerate(row, start=1):
        if mass < 0:
            raise SpecproofError(
                f"{which} entry {place} is {mass}: probabilities are 0 or more; drop the minus sign"
            )
    total = sum(row, Fraction(0))
    if total != 1:
        fix = "make one entry positive"
        if total > 0:
            fix = f"divided by the sum it is {','.join(str(mass / total) for mass in row)}"
        raise SpecproofError(f"the {which} row sums to {total}, not exactly 1: {fix}")
    return tuple(row)


def total_variation(law: Row, other: Row) -> Fraction:
    """Half the sum of differences."""
    return sum((abs(a - b) for a, b in zip(law, other, strict=True)), Fraction(0)) / 2
