"""Specifications of recursive rejection over siblings, for both ways of drawing them."""

from specproof.rules.family import families
from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw, excess, normalised, ratio, without
from specproof.tree import Tree


def siblings(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Independent children: each is tested against the full drawn row (Miao et al. 2023, algorithm 2)."""
    return _in_turn(number, target, drawn, (tree, tokens), replaced=True)


def siblings_without_replacement(
    number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]
) -> SpecLaw:
    """Distinct children: each is tested against what its elder siblings left of the drawn row."""
    return _in_turn(number, target, drawn, (tree, tokens), replaced=False)


def _in_turn(
    number: Numbers, target: list[Row], drawn: list[Row], draft: tuple[Tree, list[int]], replaced: bool
) -> SpecLaw:
    tree, tokens = draft
    reached: list[Number] = [1] + [0] * len(tree)
    stop: list[Number] = []
    following: list[Row] = []
    for row, children in enumerate(families(tree)):
        owed, source = target[row], drawn[row]  # the law still to be met, and what the next child comes from
        refused: Number = 1
        for child in children:
            token = tokens[child]
            accept = number.minimum(1, ratio(number, owed[token], source[token]))
            reached[child + 1] = reached[row] * refused * accept
            refused = refused * (1 - accept)
            owed = normalised(number, excess(number, owed, source), owed)
            if not replaced:
                source = without(number, source, token)
        stop.append(reached[row] * refused)
        following.append(owed)
    return SpecLaw(stop, following)
