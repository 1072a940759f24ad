"""Points at which facts are tried: a case that one of them lies in exists, and Z3 need not be asked."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from specproof.audit.proof.polynomial import Polynomial
from specproof.audit.proof.solver import Fact, Point
from specproof.audit.proof.space import Choice, Free, Inverse, Mass, Positive, Row, Space

Vector = np.ndarray  # [points] float64
_EQUAL = 0.4
_MARGIN = 1e-12  # closer to 0 than this counts as 0


class Samples:
    """Random rows for every context; some have tokens without mass, some draft rows are the target's.

    A wrong answer costs time only: a case that does not exist is proved like any other.
    """

    def __init__(self, space: Space, count: int = 512, point: Point | None = None) -> None:
        """With a `point` its variables have their values there."""
        self._space = space
        self._count = count
        self._generator = np.random.default_rng(0)
        self._values: dict[int, Vector] = {g: np.full(count, float(v)) for g, v in (point or {}).items()}
        self._truth: dict[Fact, Vector] = {}

    def possible(self, facts: Iterable[Fact]) -> bool:
        """Whether all facts hold together at one of the points."""
        holds = np.ones(self._count, dtype=bool)
        for fact in facts:
            if fact not in self._truth:
                value = self._evaluate(fact.polynomial)
                self._truth[fact] = value > _MARGIN if fact.above else value < _MARGIN
            holds &= self._truth[fact]
        return bool(holds.any())

    def _evaluate(self, polynomial: Polynomial) -> Vector:
        total = np.zeros(self._count)
        for monomial, coefficient in polynomial.terms.items():
            term = np.full(self._count, float(coefficient))
            for g in monomial:
                term = term * self._value(g)
            total += term
        return total

    def _value(self, generator: int) -> Vector:
        if generator not in self._values:
            what = self._space.generators[generator]
            if isinstance(what, Mass):
                self._draw_row(what, self._space.row_of(generator))
                return self._values[generator]
            self._values[generator] = self._number(what)
        return self._values[generator]

    def _number(self, what: Free | Positive | Inverse | Choice) -> Vector:
        if isinstance(what, Free):
            # Half of the points are above 1, where slacks are.
            return self._generator.random(self._count) + self._generator.integers(2, size=self._count)
        inside = self._evaluate(what.inside)
        if isinstance(what, Positive):
            return np.asarray(np.maximum(inside, 0))
        if isinstance(what, Inverse):
            return np.asarray(np.divide(1, inside, out=np.zeros(self._count), where=inside != 0))
        return np.where(inside > 0, self._evaluate(what.then), self._evaluate(what.otherwise))

    def _draw_row(self, what: Mass, row: Row) -> None:
        masses = self._random_row(len(row))
        if what.model == "draft":
            # Many cases need equal rows, so at some points the draft is the target here.
            target = [self._value(g) for g in self._space.partner(row)]
            masses = np.where(self._generator.random(self._count) < _EQUAL, target, masses)
        self._values |= dict(zip(row, masses, strict=True))

    def _random_row(self, size: int) -> Vector:
        """[size, points]: at every other point small multiples of one mass, so that ties and zeros are common."""
        coarse = self._generator.integers(3, size=(size, self._count)).astype(float)
        coarse[self._generator.integers(size, size=self._count), np.arange(self._count)] += 1
        fine = self._generator.exponential(size=(size, self._count)) ** 2
        masses = np.where(np.arange(self._count) % 2 == 0, coarse, fine)
        return np.asarray(masses / masses.sum(0))
