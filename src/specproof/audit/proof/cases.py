"""Proof that a polynomial over a `Space` is zero, or never negative, for all rows: by cases and by Z3.

A goal that does not vanish by itself is split at a closed generator that is left in it, by the sign of what
is inside. Z3 says which of the cases exist at all, and what is left where nothing can be split any more. Each
proved goal is kept with the facts that its proof used, and serves in every other case that has those facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from typing import Literal

from specproof.audit.proof.polynomial import Polynomial
from specproof.audit.proof.rewriting import Rewriting
from specproof.audit.proof.samples import Samples
from specproof.audit.proof.solver import Fact, Facts, Point, Solver
from specproof.audit.proof.space import Choice, Closed, Free, Inverse, Mass, Positive, Space

Kind = Literal["zero", "nonnegative"]
NONE: Facts = frozenset()
# A case that Z3 cannot rule out in this time counts as one that exists.
CASE_SECONDS = 2.0


class RefutedError(Exception):
    """The goal fails at a point, up to rounding of the point."""

    def __init__(self, point: Point) -> None:
        super().__init__("refuted")
        self.point = point


class UndecidedError(Exception):
    """Neither proved nor refuted; the message says why."""


class Prover:
    """Proves goals over one space until a deadline (`time.monotonic`).

    Attributes:
        cases: leaves of case trees so far.
    """

    def __init__(self, space: Space, deadline: float) -> None:
        self.space = space
        self.deadline = deadline
        self.cases = 0
        self._solver = Solver(space)
        self._samples = Samples(space)
        self._proved: dict[tuple[Kind, Polynomial], list[Facts]] = {}

    def prove(self, goal: Polynomial, kind: Kind, facts: Facts = NONE) -> None:
        """Return if the goal holds for all rows with these facts.

        Raises:
            RefutedError: it fails somewhere.
            UndecidedError: Z3 does not know, or time ran out.
        """
        self._solve(Rewriting(self.space, facts, tick=self._left).goal(goal)[0], kind, facts, None)

    def _solve(self, goal: Polynomial, kind: Kind, facts: Facts, place: Samples | None) -> Facts:
        """The facts that a proof of the goal used; `place` is where all facts hold, if one is known."""
        self._left()
        if not goal or (kind == "nonnegative" and self.space.nonnegative(goal)):
            self.cases += 1
            return NONE
        known = self._proved.setdefault((kind, goal), [])
        for used in known:
            if used <= facts:
                return used
        inside = self._choose(goal, facts)
        if inside is None:
            used = self._leaf(goal, kind, facts)
        else:
            used = NONE
            for fact in (Fact(inside, True), Fact(inside, False)):
                used |= self._case(fact, goal, kind, facts, place)
        known.append(used)
        return used

    def _leaf(self, goal: Polynomial, kind: Kind, facts: Facts) -> Facts:
        self.cases += 1
        if kind == "zero":
            answer, counter = self._solver.ask(facts, goal, self._left(), nonzero=True), NONE
        else:
            counter = frozenset({Fact(-goal, True)})
            answer = self._solver.ask(facts | counter, goal, self._left())
        if answer.possible is None:
            raise UndecidedError("Z3 could not decide a case")
        if answer.point is not None:
            raise RefutedError(answer.point)
        return answer.core - counter

    def _case(self, fact: Fact, goal: Polynomial, kind: Kind, facts: Facts, place: Samples | None) -> Facts:
        """The facts that show the goal, or that there is no such case."""
        if place is None or not place.possible([fact]):
            place = None
            if not self._samples.possible({*facts, fact}):
                answer = self._solver.ask(facts | {fact}, fact.polynomial, min(CASE_SECONDS, self._left()))
                if answer.possible is False:
                    return answer.core - {fact}
                if answer.point is not None:
                    place = Samples(self.space, 1, answer.point)
        rest, looked_up = Rewriting(self.space, facts | {fact}, news=fact, tick=self._left).goal(goal)
        return (looked_up | self._solve(rest, kind, facts | {fact}, place)) - {fact}

    def _left(self) -> float:
        left = self.deadline - monotonic()
        if left <= 0:
            raise UndecidedError("time ran out")
        return left

    def _choose(self, goal: Polynomial, facts: Facts) -> Polynomial | None:
        """What to split by: close to the deepest closed generator, so that one part of the tree ends first."""
        closed = self._closed(goal.generators)
        if not closed:
            return None
        deepest = max(map(self._depth, closed))
        ready = [g for g in self._closed(g for g in closed if self._depth(g) == deepest) if self._ready(g)]
        chosen = max(ready, key=lambda g: (_EAGERNESS[type(self.space.generators[g])], self._depth(g), g))
        what = self.space.generators[chosen]
        assert isinstance(what, Closed)
        inside = what.inside
        return -inside if Fact(inside, False) in facts else inside

    def _depth(self, generator: int) -> tuple[int, tuple[int, ...]]:
        depths = []
        for variable in self.space.variables_of(generator):
            what = self.space.generators[variable]
            assert isinstance(what, Mass | Free)
            depths.append((len(what.context), what.context))
        return max(depths)

    def _closed(self, generators: Iterable[int]) -> set[int]:
        """Closed generators that these depend on; a choice's branches do not count before it is made."""
        found: set[int] = set()
        open_ = list(generators)
        while open_:
            number = open_.pop()
            what = self.space.generators[number]
            if number in found or isinstance(what, Mass | Free) or not what.inside:
                continue
            found.add(number)
            open_ += what.inside.generators
        return found

    def _ready(self, generator: int) -> bool:
        """Whether what is inside is made of masses and positive parts of such only."""
        what = self.space.generators[generator]
        assert isinstance(what, Closed)
        below = self._closed(what.inside.generators)
        return all(isinstance(self.space.generators[g], Positive) for g in below)


_EAGERNESS = {Inverse: 2, Choice: 1, Positive: 0}
