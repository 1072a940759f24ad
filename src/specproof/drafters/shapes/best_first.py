"""The most probable prefixes under a drafter's confidences, found best first with a heap.

A node's value is the product of the confidences on its path, so it never exceeds its parent's, and the most
valuable nodes are a connected tree. Where the confidences are the target's own probabilities, the sum of the
values is the expected number of accepted nodes, and no tree of that size has more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from specproof.errors import SpecproofError

T = TypeVar("T")
Children = Callable[[T], Iterator[tuple[float, T]]]


@dataclass(frozen=True)
class BestFirst:
    """How many nodes a best-first tree has; its depth is what the drafter can say at once."""

    nodes: int = 16

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise SpecproofError(f"a best-first tree of {self.nodes} nodes is not allowed: give a number >= 1")


class Found(NamedTuple, Generic[T]):
    """A node of the tree: its parent's place in the list (-1 is the root), what it is, and its value."""

    parent: int
    item: T
    value: float


def best_first(children: Children[T], root: T, most: int, least: float = 0.0) -> list[Found[T]]:
    """The `most` nodes of largest value below `root`, most valuable first, so parents before children.

    Costs O(most log most) and looks at no more than one child too many of each node: siblings come one by one.

    Args:
        children: from a node to its children with their confidences in [0, 1], largest first.
        root: whose children are the first candidates; it has value 1 and is not returned.
        most: nodes wanted; fewer where there are no more.
        least: nodes of a smaller value are left out; nodes of value 0 always are.

    Source: DDTree (2604.12989), algorithm 1; SuffixDecoding (2411.04975) grows its trees in the same order.
    """
    found: list[Found[T]] = []
    heap: list[tuple[float, int, Found[T], Iterator[tuple[float, T]]]] = []
    pushed = 0

    def push(parent: int, above: float, siblings: Iterator[tuple[float, T]]) -> None:
        nonlocal pushed
        confidence, item = next(siblings, (0.0, root))
        value = above * confidence
        if value > 0 and value >= least:
            pushed += 1  # of equal values the one that was seen first
            heappush(heap, (-value, pushed, Found(parent, item, value), siblings))

    push(-1, 1.0, children(root))
    while heap and len(found) < most:
        _, _, node, siblings = heappop(heap)
        found.append(node)
        push(len(found) - 1, node.value, children(node.item))
        push(node.parent, found[node.parent].value if node.parent >= 0 else 1.0, siblings)
    return found


def most_probable_prefixes(marginals: Sequence[Sequence[float]], most: int) -> list[Found[tuple[int, ...]]]:
    """The most probable prefixes of independent positions, each as the tokens' indices.

    Args:
        marginals: one row for each position, as a block drafter gives them; in any order of tokens.
        most: prefixes wanted.

    Source: DDTree (2604.12989), propositions 1 and 2.
    """
    ranked = [sorted(range(len(row)), key=lambda token, row=row: -row[token]) for row in marginals]  # type: ignore[misc]

    def children(prefix: tuple[int, ...]) -> Iterator[tuple[float, tuple[int, ...]]]:
        if len(prefix) < len(marginals):
            depth = len(prefix)
            for token in ranked[depth]:
                yield marginals[depth][token], (*prefix, token)

    return best_first(children, (), most)
