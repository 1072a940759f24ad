"""Specification of lenient rejection (Leviathan et al. 2023, A.5)."""

from specproof.rules.parameters import SHARE
from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw, excess, normalised
from specproof.tree import Tree


def lenience(
    number: Numbers,
    target: list[Row],
    drawn: list[Row],
    tree: Tree,
    tokens: list[int],
    *,
    share: Number = SHARE.exact,
) -> SpecLaw:
    """Accept token i with min(1, target / (share · draft)); else draw from (target - share · draft)⁺."""
    assert tree.is_chain
    reached: Number = 1
    stop, following = [], []
    for i, token in enumerate(tokens):
        less = [share * q for q in drawn[i]]
        accept = number.minimum(1, target[i][token] / less[token])
        stop.append(reached * (1 - accept))
        following.append(normalised(number, excess(number, target[i], less), target[i]))
        reached = reached * accept
    return SpecLaw([*stop, reached], [*following, target[len(tokens)]])
