"""Specifications of optimal transport, for both ways of drawing the children."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import product

from specproof.rules.flow import Moved, best_plan
from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw, excess
from specproof.rules.spec.selector import chances, thresholds
from specproof.rules.spec.topdown import Judgement, top_down
from specproof.tree import Tree

Selection = Callable[[tuple[int, ...]], list[Number]]  # drawn tokens to the chance of each to be chosen
Selector = Callable[[Row, Row, int], Selection]  # target row, drawn row, number of children


def best_of_independent(target: Row, drawn: Row, count: int) -> Selection:
    """The selection with the most acceptance among independent children; on `Fraction` only."""
    until, rank = thresholds(tuple(target), tuple(drawn), count)
    return lambda tokens: chances(until, [rank[token] for token in tokens])


def best_of_distinct(target: Row, drawn: Row, count: int) -> Selection:
    """The same among children without replacement; on `Fraction` only."""
    plan = _plan(tuple(target), tuple(drawn), count)

    def selection(tokens: tuple[int, ...]) -> list[Number]:
        real = sorted(token for token in tokens if drawn[token] > 0)
        return [plan.get(tuple(real), {}).get(token, Fraction(0)) for token in tokens]

    return selection


def transport(
    number: Numbers,
    target: list[Row],
    drawn: list[Row],
    tree: Tree,
    tokens: list[int],
    selector: Selector = best_of_independent,
) -> SpecLaw:
    """Independent children: choose one of them, then test it against the law of what is chosen.

    This is lossless whatever the selector, so a proof may pass one whose chances are variables. Chances may sum
    to less than 1: then none is chosen.
    """
    return _choose_and_test(number, target, drawn, (tree, tokens), (selector, True))


def transport_without_replacement(
    number: Numbers,
    target: list[Row],
    drawn: list[Row],
    tree: Tree,
    tokens: list[int],
    selector: Selector = best_of_distinct,
) -> SpecLaw:
    """Distinct children: the same, with the probabilities of draws without replacement."""
    return _choose_and_test(number, target, drawn, (tree, tokens), (selector, False))


def _choose_and_test(
    number: Numbers,
    target: list[Row],
    drawn: list[Row],
    draft: tuple[Tree, list[int]],
    how: tuple[Selector, bool],
) -> SpecLaw:
    selector, replaced = how

    def judge(target: Row, drawn: Row, tokens: list[int]) -> Judgement:
        selection = selector(target, drawn, len(tokens))
        law: Row = [0] * len(drawn)  # of the chosen token
        for draws in product(range(len(drawn)), repeat=len(tokens)):
            probability = _probability(number, drawn, draws, replaced)
            for token, chance in zip(draws, selection(draws), strict=True):
                law[token] = law[token] + probability * chance
        taken = [
            chance * number.if_positive(law[x], lambda x=x: number.minimum(1, target[x] / law[x]), lambda: 0)  # type: ignore[misc]
            for x, chance in zip(tokens, selection(tuple(tokens)), strict=True)
        ]
        return Judgement(taken, excess(number, target, law))

    return top_down(number, target, drawn, draft, judge)


def _probability(number: Numbers, drawn: Row, draws: tuple[int, ...], replaced: bool) -> Number:
    """Of drawing these tokens in this order."""
    probability: Number = 1
    rest = list(drawn)
    for token in draws:
        probability = probability * rest[token]
        if not replaced:
            probability = number.if_positive(sum(rest), lambda p=probability: p / sum(rest), lambda: 0)  # type: ignore[misc]
            rest[token] = 0
    return probability


@lru_cache(maxsize=4096)
def _plan(target: tuple[Number, ...], drawn: tuple[Number, ...], count: int) -> Moved:
    return best_plan(target, drawn, count).taken
