"""Specification of Gumbel coupling (Daliri, Musco, Suresh 2024): the target walk, and how often rows agree."""

from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw
from specproof.rules.spec.walk import walk
from specproof.tree import Tree


def coupling(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Follow the target's decisions as long as they were drafted; the first that was not is the extra token."""
    return walk(number, target, drawn, tree, tokens)


def match_probability(number: Numbers, target: Row, draft: Row) -> Number:
    """Sum over tokens i of 1 / sum_j max(target_j / target_i, draft_j / draft_i)."""
    total: Number = 0
    for i, (p, q) in enumerate(zip(target, draft, strict=True)):
        total = total + number.if_positive(p * q, lambda i=i: 1 / _slowest(number, target, draft, i), lambda: 0)  # type: ignore[misc]
    return total


def _slowest(number: Numbers, target: Row, draft: Row, i: int) -> Number:
    return sum(number.maximum(p / target[i], q / draft[i]) for p, q in zip(target, draft, strict=True))
