"""Symbolic numbers: a specification runs on them unchanged, and its law comes out as polynomials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specproof.audit.proof.polynomial import ZERO, Polynomial
from specproof.audit.proof.space import Space
from specproof.errors import SpecproofError


@dataclass(frozen=True, eq=False)
class Symbol:
    """A number made of row masses. Comparing it is an error: what a rule does must not depend on a guess.

    Attributes:
        space: where its generators live.
        value: it, as a polynomial.
        parts: what it was made from, where it is not negative if none of these is.
        is_product: whether the parts are factors.
    """

    space: Space
    value: Polynomial
    parts: tuple[Symbol, ...] = ()
    is_product: bool = False

    def lift(self, other: Any) -> Symbol:
        """A symbol for a plain number; symbols stay as they are."""
        if isinstance(other, Symbol):
            return other
        if isinstance(other, float):
            raise SpecproofError(f"the specification computes with the float {other!r}: write it as a Fraction")
        return Symbol(self.space, Polynomial.constant(other))

    def __add__(self, other: Any) -> Symbol:
        other = self.lift(other)
        return Symbol(self.space, self.value + other.value, (self, other))

    def __mul__(self, other: Any) -> Symbol:
        other = self.lift(other)
        return Symbol(self.space, self.value * other.value, (self, other), is_product=True)

    def __neg__(self) -> Symbol:
        return Symbol(self.space, -self.value)

    def __sub__(self, other: Any) -> Symbol:
        return Symbol(self.space, self.value - self.lift(other).value)

    def __rsub__(self, other: Any) -> Symbol:
        return Symbol(self.space, self.lift(other).value - self.value)

    def __truediv__(self, other: Any) -> Symbol:
        other = self.lift(other)
        self.space.note_division(other.value)
        return self * Symbol(self.space, self.space.inverse(other.value))

    def __rtruediv__(self, other: Any) -> Symbol:
        return self.lift(other) / self

    def __pow__(self, exponent: int) -> Symbol:
        result = self.lift(1)
        for _ in range(exponent):
            result = result * self
        return result

    __radd__ = __add__
    __rmul__ = __mul__

    def _compared(self, *_: object) -> Any:
        raise SpecproofError(
            "the specification compares numbers with Python: use number.minimum, maximum or if_positive"
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compared
    __bool__ = __float__ = __int__ = __abs__ = __hash__ = _compared


class SymbolicNumbers:
    """`Numbers` for symbols of one space."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._zero = Symbol(space, ZERO)

    def lift(self, number: Any) -> Symbol:
        """A symbol for a plain number; symbols stay as they are."""
        return self._zero.lift(number)

    def minimum(self, a: Any, b: Any) -> Any:
        """See `Numbers.minimum`."""
        a, b = self.lift(a), self.lift(b)
        return Symbol(self._space, a.value - self._space.positive_part(a.value - b.value), (a, b))

    def maximum(self, a: Any, b: Any) -> Any:
        """See `Numbers.maximum`."""
        a, b = self.lift(a), self.lift(b)
        return Symbol(self._space, b.value + self._space.positive_part(a.value - b.value))

    def if_positive(self, a: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        """See `Numbers.if_positive`; both branches run, unless `a` is a constant."""
        inside = self.lift(a).value
        if inside.is_constant:
            return then() if inside.value > 0 else otherwise()
        with self._space.where(inside, above=True):
            first = self.lift(then())
        with self._space.where(inside, above=False):
            second = self.lift(otherwise())
        return Symbol(self._space, self._space.choice(inside, first.value, second.value), (first, second))
