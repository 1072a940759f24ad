"""What a specification may do with a number: + - x / and the three operations here, nothing else.

Python's own numbers (`Fraction`, `float`) use `EXACT`; other kinds of number bring their own `Numbers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

Number = Any  # Fraction, float, or a symbolic real: closed under + - * /
Row = list[Number]


class Numbers(Protocol):
    """The operations that are not arithmetic."""

    def minimum(self, a: Number, b: Number) -> Number:
        """The smaller of the two."""

    def maximum(self, a: Number, b: Number) -> Number:
        """The larger of the two."""

    def if_positive(self, a: Number, then: Callable[[], Number], otherwise: Callable[[], Number]) -> Number:
        """`then()` where a > 0, else `otherwise()`; a division by `a` belongs in `then`."""


class _Exact:
    def minimum(self, a: Number, b: Number) -> Number:
        return min(a, b)

    def maximum(self, a: Number, b: Number) -> Number:
        return max(a, b)

    def if_positive(self, a: Number, then: Callable[[], Number], otherwise: Callable[[], Number]) -> Number:
        return then() if a > 0 else otherwise()


EXACT: Numbers = _Exact()


@dataclass(frozen=True)
class SpecLaw:
    """A law in scalars: `stop[i]` and `next[i]` for the root (0) and each node (i+1)."""

    stop: list[Number]
    next: list[Row]


def excess(number: Numbers, target: Row, drawn: Row) -> Row:
    """(target - drawn)⁺, not normalised."""
    return [number.maximum(p - q, 0) for p, q in zip(target, drawn, strict=True)]


def normalised(number: Numbers, row: Row, fallback: Row) -> Row:
    """The row divided by its sum; `fallback` where nothing is left."""
    total = sum(row)
    return [
        number.if_positive(total, lambda mass=mass: mass / total, lambda other=other: other)  # type: ignore[misc]
        for mass, other in zip(row, fallback, strict=True)
    ]


def ratio(number: Numbers, target: Number, drawn: Number) -> Number:
    """Target / drawn; 0 where nothing is drawn: such a token stands for no draw and is surely refused."""
    # A zero of the target's kind: Python would make a float of the quotient of two integers.
    return number.if_positive(drawn, lambda: target / drawn, lambda: target * 0)


def without(number: Numbers, row: Row, token: int) -> Row:
    """The row once `token` was taken out, normalised; all zero where nothing is left."""
    rest = [0 if x == token else mass for x, mass in enumerate(row)]
    return normalised(number, rest, [0] * len(row))
