"""Specification of the target walk (Miao et al. 2023, naive sampling)."""

from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw, normalised
from specproof.tree import Tree


def walk(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Draw from the target and follow the child with that token; stop where there is none."""
    reached: list[Number] = [1] + [0] * len(tree)
    stop: list[Number] = []
    following: list[Row] = []
    for node in range(-1, len(tree)):
        rest = list(target[node + 1])
        for child in tree.children(node):
            # Of equal siblings the first one takes the whole mass.
            reached[child + 1] = reached[node + 1] * rest[tokens[child]]
            rest[tokens[child]] = 0
        stop.append(reached[node + 1] * sum(rest))
        following.append(normalised(number, rest, target[node + 1]))
    return SpecLaw(stop, following)
