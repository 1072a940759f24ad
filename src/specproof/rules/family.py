"""Who the children of each node are. Pure Python, shared with the specifications."""

from functools import lru_cache

from specproof.tree import Tree

Families = tuple[tuple[int, ...], ...]  # children of the root (0) and of each node (i+1), in drawing order


@lru_cache(maxsize=1024)
def families(tree: Tree) -> Families:
    """Every drafted node below its own parent."""
    return _freeze([(parent, node) for node, parent in enumerate(tree.parents)], len(tree))


@lru_cache(maxsize=4096)
def adopted(tree: Tree, tokens: tuple[int, ...]) -> Families:
    """The same with the children of equal siblings given to the first of these; the others stay, as leaves.

    Equal siblings stand for one and the same text, so their children were drawn from the same row.
    """
    if tree.is_chain:
        return families(tree)
    first: dict[tuple[int, int], int] = {}  # (parent, token) to the node that stands for that text
    standing: list[int] = []
    pairs: list[tuple[int, int]] = []
    for node, (parent, token) in enumerate(zip(tree.parents, tokens, strict=True)):
        adopter = standing[parent] if parent >= 0 else -1
        pairs.append((adopter, node))
        standing.append(first.setdefault((adopter, token), node))
    return _freeze(pairs, len(tree))


def _freeze(pairs: list[tuple[int, int]], nodes: int) -> Families:
    children: list[list[int]] = [[] for _ in range(nodes + 1)]
    for parent, node in pairs:
        children[parent + 1].append(node)
    return tuple(tuple(family) for family in children)
