"""Specification of threshold acceptance (SGLang's target-only tree verification)."""

from specproof.rules.parameters import ACCUMULATED, SINGLE
from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw, normalised
from specproof.tree import Tree


def threshold(
    number: Numbers,
    target: list[Row],
    drawn: list[Row],
    tree: Tree,
    tokens: list[int],
    *,
    single: Number = SINGLE.exact,
    accumulated: Number = ACCUMULATED.exact,
) -> SpecLaw:
    """Follow the first child that has at least `single`, or whose running mass / `accumulated` tops the coin."""
    reached: list[Number] = [1] + [0] * len(tree)
    stop: list[Number] = []
    following: list[Row] = []
    for node in range(-1, len(tree)):
        rest = list(target[node + 1])
        asked: Number = 0
        left: Number = 0  # coins below this have followed a child
        for child in tree.children(node):
            mass = rest[tokens[child]]
            asked = asked + mass
            bar = number.if_positive(
                single - mass,
                lambda asked=asked: number.minimum(1, asked / accumulated),  # type: ignore[misc]
                lambda: 1,
            )
            chance = number.maximum(bar - left, 0)
            reached[child + 1] = reached[node + 1] * chance
            left = left + chance
            rest[tokens[child]] = 0
        stop.append(reached[node + 1] * (1 - left))
        following.append(normalised(number, rest, target[node + 1]))
    return SpecLaw(stop, following)
