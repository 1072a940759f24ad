"""The shape of a draft: a tree hanging below the last committed token.

A chain is a tree whose parents are -1, 0, 1, …; nothing in the project has a second code path for it.
Shapes live on the host, since they are chosen before anything is drawn; only tokens live on the device.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

from specproof.errors import SpecproofError


@dataclass(frozen=True)
class Tree:
    """Drafted nodes by their parents.

    Attributes:
        parents: one entry a node, -1 for a child of the root; parents come before children and siblings
            stand in the order in which they were drawn.
    """

    parents: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for node, parent in enumerate(self.parents):
            if not -1 <= parent < node:
                raise SpecproofError(f"tree {self.parents}: node {node} has parent {parent}; parents come first")

    def __len__(self) -> int:
        return len(self.parents)

    @staticmethod
    @lru_cache(maxsize=256)
    def chain(length: int) -> "Tree":
        """The chain of `length` nodes; 0 gives the empty draft."""
        return Tree(tuple(range(-1, length - 1)))

    @staticmethod
    def levels(branching: tuple[int, ...]) -> "Tree":
        """The regular tree with `branching[d]` children for every node at depth d, level by level."""
        parents: list[int] = []
        level = [-1]
        for children in branching:
            first = len(parents)
            parents += [node for node in level for _ in range(children)]
            level = list(range(first, len(parents)))
        return Tree(tuple(parents))

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Distance of each node from the root; children of the root have 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def is_chain(self) -> bool:
        """Whether every node hangs below the one before it."""
        return self.parents == tuple(range(-1, len(self) - 1))

    @cached_property
    def is_parallel(self) -> bool:
        """Whether only the root branches: chains side by side, of any lengths."""
        below = [parent for parent in self.parents if parent >= 0]
        return len(set(below)) == len(below)

    @cached_property
    def is_even(self) -> bool:
        """Whether all leaves have the same depth."""
        inner = set(self.parents)
        return len({depth for node, depth in enumerate(self.depths) if node not in inner}) <= 1

    def path(self, node: int) -> tuple[int, ...]:
        """Nodes from the root's child down to `node`; empty for the root (-1)."""
        path: list[int] = []
        while node >= 0:
            path.append(node)
            node = self.parents[node]
        return tuple(reversed(path))

    def children(self, node: int) -> tuple[int, ...]:
        """Children of `node` (-1 for the root) in the order they were drawn."""
        return tuple(child for child, parent in enumerate(self.parents) if parent == node)
