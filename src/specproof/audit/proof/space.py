"""The unknowns of a proof: masses of rows, and what is closed over them.

What is not polynomial stays closed: max(e, 0), 1/e and "if e is positive" are generators of their own, equal
exactly where their contents are. Most of a law cancels while they are closed; a proof opens only those that are
left (see `cases`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from specproof.audit.proof.polynomial import ONE, ZERO, Coefficient, Monomial, Polynomial

Context = tuple[int, ...]
Row = tuple[int, ...]  # numbers of the masses of a row


@dataclass(frozen=True)
class Mass:
    """Mass of a token in a model's row.

    Attributes:
        model: "target" or "draft".
        context: the tokens drafted before.
        token: which one.
    """

    model: str
    context: Context
    token: int


@dataclass(frozen=True)
class Free:
    """A number >= 0 that a specification may choose, such as a slack; `name` says which."""

    name: tuple[str | int, ...]
    context: Context


@dataclass(frozen=True)
class Positive:
    """max(inside, 0)."""

    inside: Polynomial


@dataclass(frozen=True)
class Inverse:
    """1 / inside; where inside is 0 any fixed number >= 0, which no sound law depends on."""

    inside: Polynomial


@dataclass(frozen=True)
class Choice:
    """`then` where inside > 0, else `otherwise`."""

    inside: Polynomial
    then: Polynomial
    otherwise: Polynomial


Variable = Mass | Free
Closed = Positive | Inverse | Choice
Generator = Variable | Closed


@dataclass
class Space:
    """All generators of one proof, each content once; polynomials name them by number.

    Attributes:
        generators: by number.
        last: the last mass of each row, as 1 minus the others.
    """

    generators: list[Generator] = field(default_factory=list)
    last: dict[int, Polynomial] = field(default_factory=dict)
    _numbers: dict[Generator, int] = field(default_factory=dict)
    _rows: dict[int, Row] = field(default_factory=dict)
    _variables: list[frozenset[int]] = field(default_factory=list)
    _nonnegative: list[bool] = field(default_factory=list)
    _conditions: list[tuple[Polynomial, bool]] = field(default_factory=list)
    _divisions: list[Polynomial] = field(default_factory=list)

    def row(self, model: str, context: Context, size: int) -> list[Polynomial]:
        """A row of masses; that they sum to 1 is used where a claim is reduced (see `Rewriting`)."""
        masses = [self.variable(Mass(model, context, token)) for token in range(size)]
        row = tuple(g for mass in masses for g in mass.generators)
        self._rows |= dict.fromkeys(row, row)
        rest = ONE
        for mass in masses[:-1]:
            rest = rest - mass
        self.last[row[-1]] = rest
        return masses

    def number(self, what: Generator) -> int:
        """Number of a generator that exists."""
        return self._numbers[what]

    def row_of(self, generator: int) -> Row:
        """Numbers of the masses in the same row; empty for a free number."""
        return self._rows.get(generator, ())

    def partner(self, row: Row) -> Row:
        """Numbers of the target's masses in the context of a draft's row."""
        masses = (self.generators[g] for g in row)
        return tuple(self._numbers[Mass("target", m.context, m.token)] for m in masses if isinstance(m, Mass))

    def variables(self, polynomial: Polynomial) -> frozenset[int]:
        """Numbers of the masses and free numbers that a polynomial depends on, closed generators opened."""
        return frozenset().union(*(self._variables[g] for g in polynomial.generators))

    def variables_of(self, generator: int) -> frozenset[int]:
        """The same for one generator."""
        return self._variables[generator]

    def variable(self, what: Variable) -> Polynomial:
        """A mass or free number."""
        return self._generator(what)

    def positive_part(self, inside: Polynomial) -> Polynomial:
        """max(inside, 0), with factors that cannot be negative before it."""
        if self.nonnegative(inside):
            return inside
        if self.nonnegative(-inside):
            return ZERO
        number, monomial = inside.content()
        monomial = self._nonnegative_part(monomial)
        core = self.aligned(inside.divided(number, monomial))
        return Polynomial({monomial: number}) * self._generator(Positive(core))

    def aligned(self, polynomial: Polynomial) -> Polynomial:
        """The same with only one of max(e, 0) and max(-e, 0), which differ by e.

        Sums of positive parts lose that form, so it is only done where their sign is not asked for.
        """
        images = {}
        for g in polynomial.generators:
            what = self.generators[g]
            if isinstance(what, Positive) and _leading(what.inside) < 0:
                images[g] = self._generator(Positive(-what.inside)) + what.inside
        return polynomial.substitute(images)

    def opposite(self, generator: int) -> dict[int, Polynomial]:
        """What max(-e, 0) is, by its number, where max(e, 0) is this generator and 0."""
        what = self.generators[generator]
        if not isinstance(what, Positive):
            return {}
        return dict.fromkeys(self._generator(Positive(-what.inside)).generators, -what.inside)

    def inverse(self, inside: Polynomial) -> Polynomial:
        """1 / inside, factor by factor."""
        if not inside:
            return self._generator(Inverse(ZERO))
        number, monomial = inside.content()
        number = number if _leading(inside) > 0 else -number
        core = inside.divided(number, monomial)
        result = Polynomial.constant(1 / number)
        for g in monomial:
            what = self.generators[g]
            own = Polynomial.generator(g)
            result = result * (what.inside if isinstance(what, Inverse) else self._generator(Inverse(own)))
        return result if core == ONE else result * self._generator(Inverse(core))

    def choice(self, inside: Polynomial, then: Polynomial, otherwise: Polynomial) -> Polynomial:
        """`then` where inside > 0, else `otherwise`; one choice for each factor that cannot be negative."""
        if inside.is_constant:
            return then if inside.value > 0 else otherwise
        if then == otherwise or self.nonnegative(-inside):
            return otherwise
        number, monomial = inside.content()
        monomial = self._nonnegative_part(monomial)
        core = inside.divided(number, monomial)
        result = then if core == ONE else self._generator(Choice(core, then, otherwise))
        for g in sorted(set(monomial)):
            result = self._generator(Choice(Polynomial.generator(g), result, otherwise))
        return result

    @contextmanager
    def where(self, inside: Polynomial, *, above: bool) -> Iterator[None]:
        """While a branch is computed that is only taken where inside > 0, or where it is not."""
        self._conditions.append((inside, above))
        yield
        self._conditions.pop()

    def note_division(self, divisor: Polynomial) -> None:
        """Remember a polynomial that is 1 where the branch is taken and divides by zero, else 0."""
        wrong = self.choice(divisor, ZERO, self.choice(-divisor, ZERO, ONE))
        for inside, above in reversed(self._conditions):
            if above and inside == divisor:
                return
            wrong = self.choice(inside, wrong, ZERO) if above else self.choice(inside, ZERO, wrong)
        if wrong:
            self._divisions.append(wrong)

    def take_divisions(self) -> list[Polynomial]:
        """What was remembered of divisions since the last time."""
        taken, self._divisions = self._divisions, []
        return taken

    def nonnegative(self, polynomial: Polynomial) -> bool:
        """Whether it is plainly never negative: as a sum of nonnegative terms, or linear and so at the corners."""
        if self.is_sum(polynomial) or self._is_minimum(polynomial) or self.is_sum(self._lower_bound(polynomial)):
            return True
        lowest = polynomial.value
        linear: dict[Row, list[Coefficient]] = {}
        for monomial, coefficient in polynomial.terms.items():
            if len(monomial) > 1:
                return False
            for g in monomial:
                if g in self._rows:
                    linear.setdefault(self._rows[g], []).append(coefficient)
                elif coefficient < 0 or not self._nonnegative[g]:
                    return False
        for row, coefficients in linear.items():
            lowest += min(coefficients) if len(coefficients) == len(row) else min(*coefficients, 0)
        return lowest >= 0

    def is_sum(self, polynomial: Polynomial) -> bool:
        """Whether every term by itself is plainly never negative."""
        return all(c > 0 and all(self._nonnegative[g] for g in m) for m, c in polynomial.terms.items())

    def _is_minimum(self, polynomial: Polynomial) -> bool:
        """Whether it is factor x (u - max(e, 0)), the smaller of u and u - e, with both plainly not negative."""
        for monomial, coefficient in polynomial.terms.items():
            for place, g in enumerate(monomial):
                what = self.generators[g]
                if coefficient > 0 or not isinstance(what, Positive):
                    continue
                others = monomial[:place] + monomial[place + 1 :]
                factor = Polynomial({others: -coefficient})
                u = (polynomial - Polynomial({monomial: coefficient})).quotient(factor)
                if u is not None and self.is_sum(factor):
                    return self.nonnegative(u) and self.nonnegative(u - what.inside)
        return False

    def _lower_bound(self, polynomial: Polynomial) -> Polynomial:
        """With max(e, 0), where it is taken away, replaced by the nonnegative terms of e, which are no less."""
        bound = polynomial
        for monomial, coefficient in polynomial.terms.items():
            if coefficient > 0 or not all(self._nonnegative[g] for g in monomial):
                continue
            for place, g in enumerate(monomial):
                what = self.generators[g]
                if isinstance(what, Positive):
                    rest = Polynomial({monomial[:place] + monomial[place + 1 :]: coefficient})
                    least = Polynomial({m: c for m, c in what.inside.terms.items() if c > 0})
                    if self.is_sum(least):
                        bound = bound - Polynomial({monomial: coefficient}) + rest * least
                        break
        return bound

    def _nonnegative_part(self, monomial: Monomial) -> Monomial:
        return tuple(g for g in monomial if self._nonnegative[g])

    def _generator(self, what: Generator) -> Polynomial:
        number = self._numbers.get(what)
        if number is None:
            number = self._numbers[what] = len(self.generators)
            self.generators.append(what)
            if isinstance(what, Mass | Free):
                self._variables.append(frozenset({number}))
            else:
                parts = (what.inside, what.then, what.otherwise) if isinstance(what, Choice) else (what.inside,)
                self._variables.append(frozenset().union(*map(self.variables, parts)))
            self._nonnegative.append(self._never_negative(what))
        return Polynomial.generator(number)

    def _never_negative(self, what: Generator) -> bool:
        if isinstance(what, Choice):
            return self.nonnegative(what.then) and self.nonnegative(what.otherwise)
        return not isinstance(what, Inverse) or self.nonnegative(what.inside)


def _leading(polynomial: Polynomial) -> Coefficient:
    """Coefficient whose sign says which of e and -e is kept: that of the last monomial."""
    return polynomial.terms[max(polynomial.terms)]
