"""The static tree with the most expected tokens, from how often the first, second, … child is accepted.

Assumes that a child's chance depends on its place among its siblings alone, neither on depth nor on context.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from specproof.errors import SpecproofError
from specproof.tree import Tree


def optimal_tree(acceptance: Sequence[float], nodes: int, depth: int | None = None) -> Tree:
    """The best tree of at most `nodes` drafted nodes, level by level; ties go to fewer children.

    Args:
        acceptance: chance that the first, second, … child is the accepted one, given that its parent is; a
            node has at most as many children.
        nodes: most drafted nodes; the root is not counted.
        depth: deepest node, if limited.

    Source: Sequoia (2402.12374), section 4.1.
    """
    plans, _ = _solve(acceptance, nodes, depth)
    parents: list[int] = []
    todo = deque([(-1, nodes, 0)])  # node, nodes below it, its depth
    while todo:
        node, below, at = todo.popleft()
        for size in plans[min(at, len(plans) - 1)][below]:
            parents.append(node)
            todo.append((len(parents) - 1, size - 1, at + 1))
    return Tree(tuple(parents))


def expected_tokens(acceptance: Sequence[float], nodes: int, depth: int | None = None) -> float:
    """Expected tokens per forward of `optimal_tree`, the extra token included."""
    return _solve(acceptance, nodes, depth)[1]


def tree_tokens(acceptance: Sequence[float], tree: Tree) -> float:
    """Expected tokens per forward of any tree, the extra token included."""
    reached: list[float] = []
    born: dict[int, int] = {}
    for parent in tree.parents:
        place = born[parent] = born.get(parent, -1) + 1
        chance = acceptance[place] if place < len(acceptance) else 0.0
        reached.append((1.0 if parent < 0 else reached[parent]) * chance)
    return 1 + sum(reached)


def _solve(
    acceptance: Sequence[float], nodes: int, depth: int | None
) -> tuple[list[list[tuple[int, ...]]], float]:
    """By distance from the root and number of nodes below: sizes of the children's subtrees; and the best value.

    Without a limit on depth all levels share one table, since a subtree is smaller than its tree.
    """
    if nodes < 0 or (depth is not None and depth < 0):
        raise SpecproofError(f"a tree of {nodes} nodes and depth {depth} is not allowed: give numbers >= 0")
    if any(not 0 <= chance <= 1 for chance in acceptance) or sum(acceptance) > 1 + 1e-9:
        raise SpecproofError(f"acceptance {list(acceptance)} is no law: give chances >= 0 with a sum of at most 1")
    if depth is None:
        values, plan = _level(acceptance, nodes)
        return [plan], values[-1]
    values = [1.0] * (nodes + 1)
    plans: list[list[tuple[int, ...]]] = [[()] * (nodes + 1)]
    for _ in range(min(depth, nodes)):
        values, plan = _level(acceptance, nodes, values)
        plans.append(plan)
    return plans[::-1], values[-1]


def _level(
    acceptance: Sequence[float], nodes: int, below: Sequence[float] | None = None
) -> tuple[list[float], list[tuple[int, ...]]]:
    """For 0 to `nodes` nodes below a parent: what they are worth with it, and the sizes of the subtrees.

    Args:
        below: what a child is worth with so many nodes below it; the same as the parent if not given.
    """
    values: list[float] = []
    worth = values if below is None else below
    # By the first child that is still to get a subtree, and by the nodes that are left.
    tables: list[list[tuple[float, tuple[int, ...]]]] = [[] for _ in range(len(acceptance) + 1)]
    for left in range(nodes + 1):
        tables[-1].append((0.0, ()))
        for place in range(len(acceptance) - 1, -1, -1):
            after = tables[place + 1]
            options = [(acceptance[place] * worth[s - 1] + after[left - s][0], s) for s in range(1, left + 1)]
            value, size = max(options, key=lambda option: option[0], default=(0.0, 0))
            tables[place].append((value, (size, *after[left - size][1])) if value > 0 else (0.0, ()))
        values.append(1 + tables[0][left][0])
    return values, [sizes for _, sizes in tables[0]]
