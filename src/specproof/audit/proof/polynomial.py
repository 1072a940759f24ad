"""Sparse polynomials with exact coefficients: the normal form in which a proof compares laws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import gcd

Monomial = tuple[int, ...]  # numbers of generators, ascending, repeated for powers
Coefficient = int | Fraction


class Polynomial:
    """A finite sum of coefficient x monomial. Equal polynomials are equal objects: a zero test is a lookup."""

    __slots__ = ("__dict__", "terms")

    def __init__(self, terms: dict[Monomial, Coefficient]) -> None:
        self.terms = terms  # no zero coefficients

    @staticmethod
    def constant(value: Coefficient) -> Polynomial:
        """The polynomial without generators."""
        return Polynomial({(): value} if value else {})

    @staticmethod
    def generator(number: int) -> Polynomial:
        """One generator."""
        return Polynomial({(number,): 1})

    @cached_property
    def _items(self) -> frozenset[tuple[Monomial, Coefficient]]:
        return frozenset(self.terms.items())

    @cached_property
    def _hash(self) -> int:
        return hash(self._items)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __bool__(self) -> bool:
        return bool(self.terms)

    @cached_property
    def generators(self) -> frozenset[int]:
        """Numbers of the generators that occur."""
        return frozenset(g for monomial in self.terms for g in monomial)

    @property
    def is_constant(self) -> bool:
        """Whether no generator occurs."""
        return not self.terms or (len(self.terms) == 1 and () in self.terms)

    @property
    def value(self) -> Coefficient:
        """The constant term."""
        return self.terms.get((), 0)

    def __add__(self, other: Polynomial) -> Polynomial:
        small, large = sorted((self.terms, other.terms), key=len)
        terms = dict(large)
        for monomial, coefficient in small.items():
            _add(terms, monomial, coefficient)
        return Polynomial(terms)

    def __neg__(self) -> Polynomial:
        return self.scaled(-1)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[Monomial, Coefficient] = {}
        small, large = sorted((self.terms, other.terms), key=len)
        for left, a in small.items():
            for right, b in large.items():
                _add(terms, tuple(sorted(left + right)) if left else right, a * b)
        return Polynomial(terms)

    def __pow__(self, exponent: int) -> Polynomial:
        result = ONE
        for _ in range(exponent):
            result = result * self
        return result

    def scaled(self, factor: Coefficient) -> Polynomial:
        """The polynomial times a number."""
        return Polynomial({m: c * factor for m, c in self.terms.items()}) if factor else ZERO

    def substitute(self, values: Mapping[int, Polynomial]) -> Polynomial:
        """Polynomials in place of generators."""
        if not self.generators & values.keys():
            return self
        terms: dict[Monomial, Coefficient] = {}
        powers: dict[Monomial, Polynomial] = {}
        for monomial, coefficient in self.terms.items():
            gone = tuple(g for g in monomial if g in values)
            kept = tuple(g for g in monomial if g not in values)
            if gone not in powers:
                powers[gone] = product(values[g] for g in gone)
            for other, factor in powers[gone].terms.items():
                _add(terms, tuple(sorted(kept + other)), coefficient * factor)
        return Polynomial(terms)

    def degree(self, generator: int) -> int:
        """Highest power of a generator."""
        return max((monomial.count(generator) for monomial in self.terms), default=0)

    def clear(self, generator: int, denominator: Polynomial) -> tuple[Polynomial, int]:
        """With generator = 1/denominator: polynomial x denominator^power, without the generator; and power."""
        power = self.degree(generator)
        if power == 0:
            return self, 0
        by_exponent: dict[int, dict[Monomial, Coefficient]] = {}
        for monomial, coefficient in self.terms.items():
            exponent = monomial.count(generator)
            rest = tuple(g for g in monomial if g != generator) if exponent else monomial
            by_exponent.setdefault(exponent, {})[rest] = coefficient
        result, factor = ZERO, ONE
        for exponent in range(power, -1, -1):
            if exponent in by_exponent:
                result = result + Polynomial(by_exponent[exponent]) * factor
            factor = factor * denominator
        return result, power

    def cancel(self, generator: int, inverse: int) -> Polynomial:
        """With generator x inverse = 1: the polynomial where no monomial has both."""
        if generator not in self.generators or inverse not in self.generators:
            return self
        terms: dict[Monomial, Coefficient] = {}
        for monomial, coefficient in self.terms.items():
            rest = list(monomial)
            for _ in range(min(monomial.count(generator), monomial.count(inverse))):
                rest.remove(generator)
                rest.remove(inverse)
            _add(terms, tuple(rest), coefficient)
        return Polynomial(terms)

    def quotient(self, divisor: Polynomial) -> Polynomial | None:
        """The polynomial / divisor, None if that is no polynomial."""
        lead = max(divisor.terms, key=lambda monomial: monomial[::-1])
        others = [(monomial, c) for monomial, c in divisor.terms.items() if monomial != lead]
        terms: dict[Monomial, Coefficient] = {}
        rest = dict(self.terms)
        heap = [(_descending(monomial), monomial) for monomial in rest]
        heapify(heap)
        while heap:
            top = heappop(heap)[1]
            if top not in rest:  # cancelled, or met before
                continue
            monomial = _without(top, lead)
            if monomial is None:
                return None
            coefficient = _exact(Fraction(rest.pop(top)) / divisor.terms[lead])
            terms[monomial] = coefficient
            for other, factor in others:
                product = tuple(sorted(monomial + other))
                if product not in rest:
                    heappush(heap, (_descending(product), product))
                _add(rest, product, -coefficient * factor)
        return Polynomial(terms)

    def content(self) -> tuple[Fraction, Monomial]:
        """The largest positive number and the largest monomial that divide it; (0, ()) for zero."""
        numerator, denominator = 0, 1
        for coefficient in self.terms.values():
            numerator = gcd(numerator, coefficient.numerator)
            denominator = denominator * coefficient.denominator // gcd(denominator, coefficient.denominator)
        monomials = iter(self.terms)
        common = list(next(monomials, ()))
        for monomial in monomials:
            if not common:
                break
            common = _common(common, monomial)
        return Fraction(numerator, denominator), tuple(common)

    def divided(self, number: Fraction, monomial: Monomial) -> Polynomial:
        """The quotient by a number and a monomial that divide it."""
        terms: dict[Monomial, Coefficient] = {}
        for key, coefficient in self.terms.items():
            rest = _without(key, monomial)
            assert rest is not None
            terms[rest] = _exact(Fraction(coefficient) / number)
        return Polynomial(terms)

    def evaluate(self, value: Callable[[int], Fraction]) -> Fraction:
        """Its value where `value(g)` is that of generator g."""
        total = Fraction(0)
        for monomial, coefficient in self.terms.items():
            term = Fraction(coefficient)
            for g in monomial:
                term *= value(g)
            total += term
        return total


def product(factors: Iterable[Polynomial]) -> Polynomial:
    """The product, 1 if there are no factors."""
    result = ONE
    for factor in factors:
        result = result * factor
    return result


def _add(terms: dict[Monomial, Coefficient], monomial: Monomial, coefficient: Coefficient) -> None:
    total = terms.get(monomial, 0) + coefficient
    if total:
        terms[monomial] = total
    else:
        terms.pop(monomial, None)


def _exact(number: Fraction) -> Coefficient:
    return number.numerator if number.denominator == 1 else number


def _descending(monomial: Monomial) -> Monomial:
    """Sort key of the lexicographic order, the last generators and the highest powers first."""
    return (*(-g for g in monomial[::-1]), 1)


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    rest = list(monomial)
    for g in factor:
        if g not in rest:
            return None
        rest.remove(g)
    return tuple(rest)


def _common(left: list[int], right: Monomial) -> list[int]:
    rest, common = list(right), []
    for g in left:
        if g in rest:
            rest.remove(g)
            common.append(g)
    return common


ZERO = Polynomial({})
ONE = Polynomial.constant(1)
