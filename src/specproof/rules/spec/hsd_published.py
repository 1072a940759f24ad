"""Specification of hierarchical speculative decoding as published (2601.05724): not lossless."""

from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw, excess, normalised
from specproof.tree import Tree


def hsd_published(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Block verification, but the whole block passes with the product of ratios that was never capped."""
    assert tree.is_chain
    weight: Number = 1
    uncapped: Number = 1
    passes: list[Number] = []
    following: list[Row] = []
    for i, token in enumerate(tokens):
        gap = excess(number, [weight * p for p in target[i]], drawn[i])
        left, miss = sum(gap), 1 - weight
        passes.append(number.if_positive(left + miss, lambda: left / (left + miss), lambda: 1))  # noqa: B023 called at once
        following.append(normalised(number, gap, target[i]))
        ratio = target[i][token] / drawn[i][token]
        weight = number.minimum(1, weight * ratio)
        uncapped = uncapped * ratio
    stop: list[Number] = []
    none_later: Number = 1
    # The root (passes[0]) passes whatever its number says, where no later end does.
    for chance in [number.minimum(1, uncapped), *reversed(passes[1:])]:
        stop.insert(0, chance * none_later)
        none_later = none_later * (1 - chance)
    if tokens:
        stop.insert(0, none_later)
    return SpecLaw(stop, [*following, target[len(tokens)]])
