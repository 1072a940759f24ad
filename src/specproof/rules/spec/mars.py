"""Specification of MARS (2601.15498)."""

from fractions import Fraction
from math import exp

from specproof.rules.parameters import PEAK, THETA
from specproof.rules.spec.longest import longest_path
from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw
from specproof.tree import Tree


def mars(
    number: Numbers,
    target: list[Row],
    drawn: list[Row],
    tree: Tree,
    tokens: list[int],
    *,
    theta: Fraction = THETA.exact,
    peak: Fraction = PEAK.exact,
) -> SpecLaw:
    """A node passes as the first choice, or as the second one if second > first · exp(-(1 - theta) · peak)."""
    share = Fraction(exp(-float((1 - theta) * peak)))
    passes = []
    for parent, token in zip(tree.parents, tokens, strict=True):
        row = target[parent + 1]
        first = _largest(number, row, range(len(row)))
        passes.append(first[token])
        for best in range(len(row)):
            if best == token:
                continue
            # Where `best` is the first choice: is the token the largest of the rest, and close?
            second = _largest(number, row, [other for other in range(len(row)) if other != best])
            close = number.if_positive(row[token] - share * row[best], lambda: 1, lambda: 0)
            passes[-1] = passes[-1] + first[best] * second[token] * close
    return SpecLaw(
        longest_path(tree, passes), [list(_largest(number, row, range(len(row))).values()) for row in target]
    )


def _largest(number: Numbers, row: Row, among: range | list[int]) -> dict[int, Number]:
    """For each token of `among` 1 if it is the largest there, of equal ones the lowest, else 0."""
    largest: dict[int, Number] = {}
    for token in among:
        is_largest: Number = 1
        for other in among:
            gap = row[token] - row[other]
            if other < token:  # must be strictly smaller
                is_largest = is_largest * number.if_positive(gap, lambda: 1, lambda: 0)
            elif other > token:  # must not be larger
                is_largest = is_largest * number.if_positive(-gap, lambda: 0, lambda: 1)
        largest[token] = is_largest
    return largest
