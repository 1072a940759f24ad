"""Expand and rerank: a tree that grows where the draft model is confident, then loses its weakest nodes.

The value of a node is the product of the confidences on its path. It looks at the drafted tokens' own
probabilities, so it is for point drafts only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from specproof.errors import SpecproofError
from specproof.tree import Tree


@dataclass(frozen=True)
class Dynamic:
    """How far a tree is expanded, and how much of it is kept.

    Attributes:
        depth: draft forwards, so depth of the deepest node.
        width: nodes of a level that are expanded, and children that each of them gets.
        nodes: kept of all that were generated.

    Source: EAGLE-2 (2406.16858), sections 4.1 and 4.2.
    """

    depth: int = 5
    width: int = 4
    nodes: int = 16

    def __post_init__(self) -> None:
        if min(self.depth, self.width, self.nodes) < 1:
            raise SpecproofError(
                f"a dynamic tree of depth {self.depth}, width {self.width} and {self.nodes} nodes is not allowed: "
                "give numbers >= 1"
            )


@dataclass(frozen=True)
class Mixed:
    """One tree for each way of writing: a greedy text's drafts may be chosen by value, a sampled one's may not.

    Attributes:
        fixed: where a text of the batch is sampled.
        grown: where all are greedy.
    """

    fixed: Tree
    grown: Dynamic


@dataclass
class Candidates:
    """Everything generated so far, level by level.

    Attributes:
        parents, tokens, values, depths: of each node; -1 is the root, its value 1 and its depth 0.
    """

    parents: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)

    def add(self, parent: int, token: int, confidence: float) -> None:
        """A child of `parent`; one without confidence is not generated."""
        if confidence > 0:
            self.parents.append(parent)
            self.tokens.append(token)
            self.values.append((1.0 if parent < 0 else self.values[parent]) * confidence)
            self.depths.append(1 if parent < 0 else self.depths[parent] + 1)

    def widest(self, depth: int, width: int) -> list[int]:
        """The most valuable nodes of a level, at most `width`, in the order they were generated."""
        return sorted(_largest([node for node, at in enumerate(self.depths) if at == depth], self.values, width))

    def kept(self, nodes: int) -> list[int]:
        """The most valuable nodes of all, in the order they were generated; ties go to the earlier level.

        Their parents are among them, since no node is worth more than its parent.
        """
        return sorted(_largest(range(len(self.values)), self.values, nodes))


def _largest(nodes: Sequence[int], values: Sequence[float], most: int) -> list[int]:
    return sorted(nodes, key=lambda node: -values[node])[:most]  # a stable sort: earlier first
