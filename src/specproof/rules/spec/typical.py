"""Specification of typical acceptance (Cai et al. 2024, 2.3.1)."""

from collections.abc import Callable
from fractions import Fraction
from math import exp, log

from specproof.rules.parameters import DELTA, EPSILON
from specproof.rules.spec.longest import longest_path
from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw
from specproof.tree import Tree


def typical(
    number: Numbers,
    target: list[Row],
    drawn: list[Row],
    tree: Tree,
    tokens: list[int],
    *,
    epsilon: Number = EPSILON.exact,
    delta: Number = DELTA.exact,
    typicality: Callable[[Row], Number] | None = None,
) -> SpecLaw:
    """A node passes iff target > min(epsilon, delta · typicality), typicality being exp(-entropy) of the row.

    That needs a logarithm, so on symbolic rows `typicality` is to be given, as a number in (0, 1] for each row.
    """
    bars = [number.minimum(epsilon, delta * (typicality or exp_minus_entropy)(row)) for row in target]
    passes = [
        number.if_positive(
            target[parent + 1][token] - bars[parent + 1],
            lambda: 1,
            lambda: 0,
        )
        for parent, token in zip(tree.parents, tokens, strict=True)
    ]
    return SpecLaw(longest_path(tree, passes), list(target))


def exp_minus_entropy(row: Row) -> Fraction:
    """exp(-entropy) of a row of Python numbers, rounded to float64."""
    return Fraction(exp(sum(float(mass) * log(mass) for mass in row if mass > 0)))
