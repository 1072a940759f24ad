"""Specification of SPEC-RL as published (2509.23232)."""

from specproof.rules.parameters import FACTOR
from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw
from specproof.tree import Tree


def spec_rl(
    number: Numbers,
    target: list[Row],
    drawn: list[Row],
    tree: Tree,
    tokens: list[int],
    *,
    factor: Number = FACTOR.exact,
) -> SpecLaw:
    """Accept token i with min(1, factor · target/draft); at the first rejection draw from the target itself."""
    assert tree.is_chain
    reached: Number = 1
    stop: list[Number] = []
    for i, token in enumerate(tokens):
        accept = number.minimum(1, factor * target[i][token] / drawn[i][token])
        stop.append(reached * (1 - accept))
        reached = reached * accept
    return SpecLaw([*stop, reached], list(target))
