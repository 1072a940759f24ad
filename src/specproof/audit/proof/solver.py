"""Z3 over the variables of a `Space`: which signs can go together, and where."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

from specproof.audit.proof.polynomial import Polynomial
from specproof.audit.proof.space import Choice, Free, Mass, Positive, Space
from specproof.errors import SpecproofError


class Fact(NamedTuple):
    """The polynomial is > 0 if `above`, else <= 0."""

    polynomial: Polynomial
    above: bool


Facts = frozenset[Fact]
_NEAR_SECONDS = 1.0
Point = dict[int, Fraction]  # variables by number


class Answer(NamedTuple):
    """Whether facts can hold together.

    Attributes:
        possible: True, False, or None where Z3 does not know.
        core: facts that cannot hold together, where they cannot.
        point: a place where all hold, where they can; irrational values are rounded.
    """

    possible: bool | None
    core: Facts = frozenset()
    point: Point | None = None


class Solver:
    """Asks Z3; each question stands alone, only translated terms are kept."""

    def __init__(self, space: Space) -> None:
        try:
            import z3
        except ModuleNotFoundError:
            raise SpecproofError("a proof needs Z3: pip install 'specproof[prove]'") from None
        self._z3: Any = z3
        # Of its own, so that what was proved before does not change how Z3 goes about this.
        self._context: Any = z3.Context()
        self._space = space
        self._terms: dict[Polynomial, Any] = {}
        self._atoms: dict[int, Any] = {}

    def ask(self, facts: Facts, about: Polynomial, seconds: float, nonzero: bool = False) -> Answer:
        """Whether the facts can hold together for some rows; with `nonzero`, where also `about` is not 0.

        `about` is what the question turns on. Facts on its variables alone are asked first: they often decide,
        and Z3 is slow where there are many.
        """
        variables = self._space.variables(about)
        near = [fact for fact in facts if self._space.variables(fact.polynomial) <= variables]
        goal = [self._term(about) != 0] if nonzero else []
        if len(near) < len(facts):
            answer = self._check(near, goal, variables, min(seconds, _NEAR_SECONDS))
            if answer.possible is False:
                return answer
        variables = variables.union(*(self._space.variables(fact.polynomial) for fact in facts))
        return self._check(list(facts), goal, variables, seconds)

    def _check(self, facts: list[Fact], goal: list[Any], variables: frozenset[int], seconds: float) -> Answer:
        solver = self._z3.SolverFor("QF_NRA", ctx=self._context)
        solver.set("timeout", max(1, int(seconds * 1000)))
        solver.add(*goal, *self._domain(variables))
        for number, (polynomial, above) in enumerate(facts):
            term = self._term(polynomial)
            solver.assert_and_track(term > 0 if above else term <= 0, str(number))
        result = solver.check()
        if result == self._z3.unsat:
            return Answer(False, core=frozenset(facts[int(str(name))] for name in solver.unsat_core()))
        if result == self._z3.sat:
            whole = {g for v in variables for g in (v, *self._space.row_of(v))}
            model = solver.model()
            return Answer(True, point={g: self._value(model, g) for g in whole})
        return Answer(None)

    def _domain(self, variables: Iterable[int]) -> list[Any]:
        """What holds for variables and the rows they stand in: nothing is negative, rows sum to 1."""
        rows = {self._space.row_of(v) or (v,) for v in variables}
        signs = [self._atom(v) >= 0 for row in rows for v in row]
        return signs + [
            self._z3.Sum([self._atom(v) for v in row]) == 1 for row in rows if self._space.row_of(row[0])
        ]

    def _value(self, model: Any, variable: int) -> Fraction:
        value = model.eval(self._atom(variable), model_completion=True)
        if not self._z3.is_rational_value(value):
            value = value.approx(12)
        return Fraction(value.numerator_as_long(), value.denominator_as_long())

    def _term(self, polynomial: Polynomial) -> Any:
        if polynomial not in self._terms:
            summands = []
            for monomial, coefficient in polynomial.terms.items():
                number = self._z3.RealVal(coefficient, self._context)
                summands.append(self._z3.Product(number, *map(self._atom, monomial)))
            self._terms[polynomial] = self._z3.Sum(summands) if summands else self._z3.RealVal(0, self._context)
        return self._terms[polynomial]

    def _atom(self, generator: int) -> Any:
        if generator not in self._atoms:
            what = self._space.generators[generator]
            if isinstance(what, Positive):
                inside = self._term(what.inside)
                atom = self._z3.If(inside > 0, inside, 0)
            elif isinstance(what, Choice):
                branches = self._term(what.then), self._term(what.otherwise)
                atom = self._z3.If(self._term(what.inside) > 0, *branches)
            else:
                # A division by zero may have any value, so it is a number of its own.
                assert isinstance(what, Mass | Free) or not what.inside
                atom = self._z3.Real(f"x{generator}", self._context)
            self._atoms[generator] = atom
        return self._atoms[generator]
