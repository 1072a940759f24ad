"""Facts tried on a fixed set of points: a case that one of them lies in exists, and Z3 need not be asked."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from specproof.audit.proof.polynomial import Polynomial
from specproof.audit.proof.solver import Fact
from specproof.audit.proof.space import Choice, Free, Inverse, Mass, Positive, Row, Space

Vector = np.ndarray  # [points] float64
_POINTS = 512
_EQUAL = 0.4
_MARGIN = 1e-12  # closer to 0 than this counts as 0


class Samples:
    """Random rows for every context, the same for every question; some have tokens without mass.

    A wrong answer costs time only: a case that does not exist is proved like any other.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._generator = np.random.default_rng(0)
        self._values: dict[int, Vector] = {}
        self._truth: dict[Fact, Vector] = {}

    def possible(self, facts: Iterable[Fact]) -> bool:
        """Whether all facts hold together at one of the points."""
        holds = np.ones(_POINTS, dtype=bool)
        for fact in facts:
            if fact not in self._truth:
                value = self._evaluate(fact.polynomial)
                self._truth[fact] = value > _MARGIN if fact.above else value < _MARGIN
            holds &= self._truth[fact]
        return bool(holds.any())

    def _evaluate(self, polynomial: Polynomial) -> Vector:
        total = np.zeros(_POINTS)
        for monomial, coefficient in polynomial.terms.items():
            term = np.full(_POINTS, float(coefficient))
            for g in monomial:
                term = term * self._value(g)
            total += term
        return total

    def _value(self, generator: int) -> Vector:
        if generator not in self._values:
            what = self._space.generators[generator]
            if isinstance(what, Mass):
                self._draw_row(what, self._space.row_of(generator))
            elif isinstance(what, Free):
                # Half of the points are above 1, where slacks are.
                self._values[generator] = self._generator.random(_POINTS) + self._generator.integers(
                    2, size=_POINTS
                )
            elif isinstance(what, Inverse):
                inside = self._evaluate(what.inside)
                self._values[generator] = np.divide(1, inside, out=np.zeros(_POINTS), where=inside != 0)
            elif isinstance(what, Positive):
                self._values[generator] = np.maximum(self._evaluate(what.inside), 0)
            else:
                assert isinstance(what, Choice)
                above = self._evaluate(what.inside) > 0
                self._values[generator] = np.where(
                    above, self._evaluate(what.then), self._evaluate(what.otherwise)
                )
        return self._values[generator]

    def _draw_row(self, what: Mass, row: Row) -> None:
        masses = self._random_row(len(row))
        if what.model == "draft":
            # Many cases need equal rows, so at some points the draft is the target here.
            target = [self._value(g) for g in self._space.partner(row)]
            masses = np.where(self._generator.random(_POINTS) < _EQUAL, target, masses)
        self._values |= dict(zip(row, masses, strict=True))

    def _random_row(self, size: int) -> Vector:
        """[size, points]: at every other point small multiples of one mass, so that ties and zeros are common."""
        coarse = self._generator.integers(3, size=(size, _POINTS)).astype(float)
        coarse[self._generator.integers(size, size=_POINTS), np.arange(_POINTS)] += 1
        fine = self._generator.exponential(size=(size, _POINTS)) ** 2
        masses = np.where(np.arange(_POINTS) % 2 == 0, coarse, fine)
        return np.asarray(masses / masses.sum(0))
