"""Specification of deterministic acceptance: the longest path whose nodes all pass."""

from specproof.rules.spec.numbers import Number
from specproof.tree import Tree


def longest_path(tree: Tree, passes: list[Number]) -> list[Number]:
    """Probability (0 or 1) of stopping at the root and at each node, from `passes` (0 or 1) of each node."""
    reached: list[Number] = [1]
    for parent, chance in zip(tree.parents, passes, strict=True):
        reached.append(reached[parent + 1] * chance)
    depths = (0, *tree.depths)
    stop: list[Number] = [0] * len(reached)
    none_deeper: Number = 1
    for row in sorted(range(len(reached)), key=lambda row: (-depths[row], row)):
        stop[row] = reached[row] * none_deeper
        none_deeper = none_deeper * (1 - reached[row])
    return stop
