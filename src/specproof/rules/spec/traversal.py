"""Specifications of traversal verification (Weng et al. 2025), for each way of drawing siblings."""

from specproof.rules.family import adopted
from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw, excess, normalised, ratio, without
from specproof.rules.spec.walk import walk
from specproof.tree import Tree


def traversal(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Independent children: each is weighed against the whole row; of equal ones the first has the subtree."""
    return _bottom_up(number, target, drawn, (tree, tokens), replaced=True)


def traversal_without_replacement(
    number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]
) -> SpecLaw:
    """Distinct children: each is weighed against what its elder siblings left of the drawn row."""
    return _bottom_up(number, target, drawn, (tree, tokens), replaced=False)


def traversal_point(
    number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]
) -> SpecLaw:
    """Tokens that were not drawn: the target walk."""
    return walk(number, target, drawn, tree, tokens)


def _bottom_up(
    number: Numbers, target: list[Row], drawn: list[Row], draft: tuple[Tree, list[int]], replaced: bool
) -> SpecLaw:
    """Test the first leaf, give it up, let its parent answer for it, and so on until the root is a leaf."""
    tree, tokens = draft
    families = adopted(tree, tuple(tokens))
    stop: list[Number] = [0] * (len(tree) + 1)
    following = list(target)
    alive: Number = 1  # probability that nothing was accepted so far

    def visit(row: int, weight: Number) -> None:
        nonlocal alive
        # Adopted children were drawn below a twin of this node.
        source = drawn[tree.parents[families[row][0]] + 1] if families[row] else []
        for child in families[row]:
            owed, token = following[row], tokens[child]
            visit(child + 1, number.minimum(1, weight * ratio(number, owed[token], source[token])))
            gap = excess(number, [weight * p for p in owed], source)
            left, miss = sum(gap), 1 - weight
            weight = number.if_positive(left + miss, lambda: left / (left + miss), lambda: 1)  # noqa: B023 called at once
            following[row] = normalised(number, gap, owed)
            source = source if replaced else without(number, source, token)
        accept = weight if row > 0 else 1
        stop[row] = alive * accept
        alive = alive * (1 - accept)

    visit(0, 1)
    return SpecLaw(stop, following)
