"""Polynomials against their values at points."""

from fractions import Fraction as F
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from specproof.audit.proof.polynomial import ONE, ZERO, Polynomial, product

POINT = [F(2, 3), F(-5, 7), F(11, 4)]
monomials = st.lists(st.integers(0, 2), max_size=3).map(lambda m: tuple(sorted(m)))
coefficients = st.one_of(st.integers(-6, 6), st.fractions(-3, 3, max_denominator=6)).filter(bool)
polynomials = st.dictionaries(monomials, coefficients, max_size=5).map(Polynomial)


def value(polynomial, point=POINT):
    return sum((c * prod((point[g] for g in m), start=F(1)) for m, c in polynomial.terms.items()), F(0))


@given(polynomials, polynomials)
def test_arithmetic(a, b):
    assert value(a + b) == value(a) + value(b)
    assert value(a - b) == value(a) - value(b)
    assert value(a * b) == value(a) * value(b)
    assert value(a**3) == value(a) ** 3
    assert value(a.scaled(F(2, 5))) == value(a) * F(2, 5)
    assert a - a == ZERO
    assert hash(a + b) == hash(b + a)


@given(polynomials, polynomials)
def test_substitution(a, b):
    assert value(a.substitute({1: b})) == value(a, [POINT[0], value(b), POINT[2]])


@given(polynomials, polynomials.filter(bool))
def test_a_quotient_is_found_exactly_where_there_is_one(a, b):
    assert (a * b).quotient(b) == a
    rest = a.quotient(b)
    assert rest is None or rest * b == a
    if not b.is_constant:
        assert (a * b + ONE).quotient(b) is None


@given(polynomials)
def test_content_divides(a):
    number, monomial = a.content()
    if a:
        assert a.divided(number, monomial) * Polynomial({monomial: number}) == a
        assert a.divided(number, monomial).content() == (1, ())
        assert number > 0


@given(polynomials)
def test_a_denominator_is_cleared(a):
    # Generator 2 stands for 1 / denominator.
    denominator = Polynomial({(0,): 3, (1,): F(1, 2)})
    cleared, power = a.clear(2, denominator)
    assert 2 not in cleared.generators
    assert value(cleared) == value(a, [*POINT[:2], 1 / value(denominator)]) * value(denominator) ** power


@given(polynomials)
def test_a_generator_cancels_its_inverse(a):
    cancelled = a.cancel(0, 2)
    assert value(cancelled, [POINT[0], POINT[1], 1 / POINT[0]]) == value(a, [POINT[0], POINT[1], 1 / POINT[0]])
    assert all(not {0, 2} <= set(monomial) for monomial in cancelled.terms)


def test_constants():
    assert Polynomial.constant(0) == ZERO
    assert product([]) == ONE
    assert ONE.is_constant
    assert (Polynomial.generator(1) + ONE).value == 1
    assert Polynomial.generator(1).degree(1) == 1
