"""Specification of block verification (Sun et al. 2024, algorithm 2)."""

from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw, excess, normalised
from specproof.tree import Tree


def block(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Each node i may be the end with probability passes[i]; the longest end that passes is taken."""
    assert tree.is_chain
    weight: Number = 1
    passes: list[Number] = [1]
    following: list[Row] = [normalised(number, excess(number, target[0], drawn[0]), target[0])] if tokens else []
    for i, token in enumerate(tokens[:-1], start=1):
        weight = number.minimum(1, weight * target[i - 1][token] / drawn[i - 1][token])
        gap = excess(number, [weight * p for p in target[i]], drawn[i])
        left, miss = sum(gap), 1 - weight
        passes.append(number.if_positive(left + miss, lambda: left / (left + miss), lambda: 1))  # noqa: B023 called at once
        following.append(normalised(number, gap, target[i]))
    if tokens:
        weight = number.minimum(
            1, weight * target[len(tokens) - 1][tokens[-1]] / drawn[len(tokens) - 1][tokens[-1]]
        )
        passes.append(weight)
    stop: list[Number] = []
    none_later: Number = 1
    for chance in reversed(passes):
        stop.insert(0, chance * none_later)
        none_later = none_later * (1 - chance)
    return SpecLaw(stop, [*following, target[len(tokens)]])
