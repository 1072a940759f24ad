"""Specification of token-by-token rejection (Leviathan et al. 2023, section 2.3)."""

from specproof.rules.spec.numbers import Numbers, Row, SpecLaw, excess, normalised
from specproof.tree import Tree


def rejection(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Accept token i with min(1, target/draft); at the first rejection draw from the residual."""
    assert tree.is_chain
    reached = 1
    stop, following = [], []
    for i, token in enumerate(tokens):
        accept = number.minimum(1, target[i][token] / drawn[i][token])
        stop.append(reached * (1 - accept))
        following.append(normalised(number, excess(number, target[i], drawn[i]), target[i]))
        reached = reached * accept
    return SpecLaw([*stop, reached], [*following, target[len(tokens)]])
