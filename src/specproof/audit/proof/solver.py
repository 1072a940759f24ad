"""Z3 over the variables of a `Space`: which signs can go together, and where."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

from specproof.audit.proof.polynomial import ONE, Polynomial
from specproof.audit.proof.space import Choice, Free, Mass, Positive, Space
from specproof.errors import SpecproofError


class Fact(NamedTuple):
    """The polynomial is > 0 if `above`, else <= 0."""

    polynomial: Polynomial
    above: bool


Facts = frozenset[Fact]
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
        self._space = space
        self._terms: dict[Polynomial, Any] = {}
        self._atoms: dict[int, Any] = {}

    def ask(self, facts: Iterable[Fact], seconds: float, nonzero: Polynomial = ONE) -> Answer:
        """Whether the facts can hold together for some rows where `nonzero` is not 0."""
        solver = self._z3.SolverFor("QF_NRA")
        solver.set("timeout", max(1, int(seconds * 1000)))
        solver.add(self._term(nonzero) != 0)
        names = {f"fact{number}": fact for number, fact in enumerate(facts)}
        for name, (polynomial, above) in names.items():
            term = self._term(polynomial)
            solver.assert_and_track(term > 0 if above else term <= 0, name)
        variables = self._space.variables(nonzero).union(
            *(self._space.variables(fact.polynomial) for fact in names.values())
        )
        solver.add(*self._domain(variables))
        result = solver.check()
        if result == self._z3.unsat:
            return Answer(False, core=frozenset(names[str(name)] for name in solver.unsat_core()))
        if result == self._z3.sat:
            model = solver.model()
            whole = {g for v in variables for g in (v, *self._space.row_of(v))}
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
                number = self._z3.Q(Fraction(coefficient).numerator, Fraction(coefficient).denominator)
                summands.append(self._z3.Product(number, *map(self._atom, monomial)))
            self._terms[polynomial] = self._z3.Sum(summands) if summands else self._z3.RealVal(0)
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
                atom = self._z3.Real(f"x{generator}")
            self._atoms[generator] = atom
        return self._atoms[generator]
