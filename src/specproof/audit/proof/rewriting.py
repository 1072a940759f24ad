"""What facts decide in a polynomial: signs, choices, denominators, and masses that are zero."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from specproof.audit.proof.polynomial import ZERO, Polynomial, product
from specproof.audit.proof.solver import Fact, Facts
from specproof.audit.proof.space import Choice, Free, Inverse, Mass, Positive, Space


class Cleared(NamedTuple):
    """A polynomial = numerator x inverse, where inverse = 1 / denominator is known to be positive."""

    numerator: Polynomial
    denominator: Polynomial
    inverse: Polynomial


class Rewriting:
    """Rewrites under facts, and says which of them it needed.

    Attributes:
        used: the facts that were needed so far.
    """

    def __init__(
        self,
        space: Space,
        facts: Facts,
        *,
        reduced: bool = True,
        news: Fact | None = None,
        tick: Callable[[], object] = int,
    ) -> None:
        """Prepare for facts.

        Args:
            space: of the polynomials.
            facts: what is known.
            reduced: put 1 minus the other masses in place of the last mass of every row.
            news: the only fact that has not been used on the polynomials yet, if there is only one.
            tick: called now and then; raises to end the work.
        """
        self._tick = tick
        self.used: set[Fact] = set()
        self._touched = None if news is None else space.variables(news.polynomial)
        self._space = space
        self._facts = facts
        self._images: dict[int, Polynomial] = {}
        self._solved: dict[int, Polynomial] = dict(space.last) if reduced else {}
        self._why: dict[int, Facts] = dict.fromkeys(self._solved, frozenset())
        for fact in facts:
            self._solve(fact)

    def goal(self, polynomial: Polynomial) -> tuple[Polynomial, Facts]:
        """The polynomial times something positive, rewritten; and the facts that this needed."""
        numerator = self.cleared(self._space.aligned(self.image(polynomial)), self._space.aligned).numerator
        if numerator:
            number, monomial = numerator.content()
            positive = tuple(g for g in monomial if self._holds(Polynomial.generator(g), True))
            numerator = self._without_factors(numerator.divided(number, positive))
        return numerator, frozenset(self.used)

    def _without_factors(self, polynomial: Polynomial) -> Polynomial:
        """Divided by whatever is known to be positive and divides it."""
        for fact in self._facts:
            factor = self._space.aligned(fact.polynomial)
            if not fact.above or factor.is_constant:
                continue
            while factor.generators <= polynomial.generators and (quotient := polynomial.quotient(factor)):
                self.used.add(fact)
                polynomial = quotient
        return polynomial

    def image(self, polynomial: Polynomial) -> Polynomial:
        """The polynomial, rewritten."""
        images = {}
        for g in polynomial.generators:
            if self._touched is not None and not self._touched & self._space.variables_of(g):
                continue
            if g not in self._images:
                self._images[g] = self._open(g)
            if self._images[g].terms != {(g,): 1}:
                images[g] = self._images[g]
        return self._simplified(polynomial.substitute(images)) if images else polynomial

    def cleared(self, polynomial: Polynomial, form: Callable[[Polynomial], Polynomial] = lambda p: p) -> Cleared:
        """The polynomial without the denominators whose sign is known, these being brought into a form first."""
        denominators, inverses = [], []
        for g in sorted(polynomial.generators):
            what = self._space.generators[g]
            if not isinstance(what, Inverse) or not what.inside:
                continue
            if self._holds(what.inside, True):
                sign = 1
            elif self._holds(-what.inside, True):
                sign = -1
            else:
                continue
            denominator = form(what.inside)
            polynomial, power = polynomial.clear(g, denominator)
            while power and (quotient := polynomial.quotient(denominator)) is not None:
                polynomial, power = quotient, power - 1
            polynomial = polynomial.scaled(sign**power)
            denominators.append(denominator.scaled(sign) ** power)
            inverses.append(Polynomial.generator(g).scaled(sign) ** power)
        return Cleared(polynomial, product(denominators), product(inverses))

    def _simplified(self, polynomial: Polynomial) -> Polynomial:
        """With denominators of known sign taken out where the numerator is divisible."""
        numerator, _, inverse = self.cleared(polynomial)
        return numerator * inverse

    def _solve(self, fact: Fact) -> None:
        """Note what an equation gives: generators that are zero, or a mass in terms of others."""
        polynomial, above = fact
        opposite = Fact(-polynomial, False)
        if above or not (opposite in self._facts or self._space.nonnegative(polynomial)):
            return
        polynomial = polynomial.substitute(self._solved)
        linear = {m[0]: c for m, c in polynomial.terms.items() if len(m) == 1}
        found: dict[int, Polynomial] = {}
        if not polynomial.value and self._space.nonnegative(polynomial) and min(linear.values(), default=0) > 0:
            found = dict.fromkeys(linear, ZERO)
            for g in linear:
                found |= self._space.opposite(g)
        elif all(isinstance(self._space.generators[g], Mass | Free) for g in polynomial.generators):
            # Masses only, so that no generator comes to depend on itself.
            for g, coefficient in linear.items():
                rest = polynomial - Polynomial({(g,): coefficient})
                if g not in rest.generators:
                    found = {g: rest.scaled(Fraction(-1) / coefficient)}
                    break
        # The equation may have been reduced by earlier ones, so it takes their reasons over.
        reasons = self._facts & {fact, opposite}
        for g in fact.polynomial.generators & self._solved.keys():
            reasons |= self._why[g]
        for g, value in self._solved.items():
            if value.generators & found.keys():
                self._solved[g] = value.substitute(found)
                self._why[g] |= reasons
        for g, value in found.items():
            self._solved[g], self._why[g] = value, reasons

    def _holds(self, polynomial: Polynomial, above: bool) -> bool:
        fact = Fact(polynomial, above)
        if fact in self._facts:
            self.used.add(fact)
            return True
        if polynomial.is_constant:
            return polynomial.value > 0 if above else polynomial.value <= 0
        return (above and self._has_positive_term(polynomial)) or self._follows(polynomial, above)

    def _has_positive_term(self, polynomial: Polynomial) -> bool:
        """Whether no term is negative and one is positive, its generators being so."""
        if len(polynomial.terms) < 2 or not self._space.is_sum(polynomial):
            return False
        for monomial in polynomial.terms:
            reasons = {Fact(Polynomial.generator(g), True) for g in monomial}
            if reasons <= self._facts:
                self.used |= reasons
                return True
        return False

    def _follows(self, polynomial: Polynomial, above: bool) -> bool:
        """Whether it is more than something positive, or less than something that is not."""
        for fact in self._facts:
            if fact.above == above and fact.polynomial.generators & polynomial.generators:
                gap = polynomial - fact.polynomial if above else fact.polynomial - polynomial
                if self._space.is_sum(gap):
                    self.used.add(fact)
                    return True
        return False

    def _open(self, number: int) -> Polynomial:
        self._tick()
        what, own = self._space.generators[number], Polynomial.generator(number)
        if number in self._solved:
            self.used |= self._why[number]
            return self.image(self._solved[number])
        if isinstance(what, Mass | Free) or not what.inside:
            return own
        inside, denominator, inverse = self.cleared(self.image(what.inside))
        above = self._holds(inside, True)
        below = not above and (self._holds(-inside, True) or self._holds(inside, False))
        if isinstance(what, Choice):
            if above or below:
                return self.image(what.then if above else what.otherwise)
            return self._space.choice(inside, self.image(what.then), self.image(what.otherwise))
        if isinstance(what, Positive):
            above = above or (not below and self._holds(-inside, False))
            if above or below:
                return inside * inverse if above else ZERO
            return self._space.positive_part(inside) * inverse
        if below and not self._holds(-inside, True) and self._holds(-inside, False):
            return self._space.inverse(ZERO)
        return self._space.inverse(inside) * denominator
