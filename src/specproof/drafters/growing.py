"""One sequence's tree while a model draws it, level by level, after a template."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specproof.tree import Tree
from specproof.types import PROPOSE, Drawn, Key, TokenSequence


@dataclass
class Growing:
    """Drawn nodes so far; -1 stands for the root.

    Attributes:
        sequence: whose draft it is.
        template: the shape that is wanted; what is drawn may lack children where a row has too few tokens.
        parents, tokens: of the drawn nodes.
        origin: the template's node that each drawn node stands for.
        rows: the row after each scored node, [V]; none where nothing that can be drafted is allowed.
        stopped: nothing more is to be drawn.
    """

    sequence: TokenSequence
    template: Tree
    parents: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    origin: list[int] = field(default_factory=list)
    rows: dict[int, Tensor] = field(default_factory=dict)
    stopped: bool = False

    @property
    def reader(self) -> TokenSequence:
        """The sequence under whose parameters rows are read: its own, for rows that are drawn from."""
        return self.sequence

    @property
    def tree(self) -> Tree:
        """The shape that was drawn."""
        return Tree(tuple(self.parents))

    def size(self, depth: int) -> int:
        """Drawn nodes up to a depth, without the template's last level, which nobody scores."""
        deepest = min(depth, self.template.depths[-1] - 1)
        return sum(self.template.depths[node] <= deepest for node in self.origin)

    def most_children(self, depth: int) -> int:
        """Most children that a node at `depth` is to have."""
        return max((len(self.template.children(at)) for at in self._level(depth).values()), default=0)

    def wanted(self, depth: int, order: int, drawn: Drawn) -> Iterator[tuple[int, int, Tensor]]:
        """Children number `order` that nodes at `depth` are to have: node, its template child, and the row.

        Rows without a token left are passed over.
        """
        for node, at in self._level(depth).items():
            children = self.template.children(at)
            if order < len(children):
                row = self._left(node, drawn)
                if row is not None:
                    yield node, children[order], row

    def is_last(self, child: int) -> bool:
        """Whether a template's node is the last of its siblings."""
        return self.template.children(self.template.parents[child])[-1] == child

    def key(self, child: int) -> Key:
        """Of the decision which token a template's node gets."""
        return Key(self.sequence.seed, len(self.sequence.tokens) - 1, PROPOSE, child)

    def add(self, node: int, child: int, token: int) -> None:
        """A drawn node below `node`."""
        self.parents.append(node)
        self.tokens.append(token)
        self.origin.append(child)

    def _level(self, depth: int) -> dict[int, int]:
        """Drawn nodes at a depth, with what they stand for."""
        if self.stopped:
            return {}
        if depth == 0:
            return {-1: -1}
        return {node: at for node, at in enumerate(self.origin) if self.template.depths[at] == depth}

    def _left(self, node: int, drawn: Drawn) -> Tensor | None:
        """What the next child of a node is drawn from: the row, without earlier siblings unless iid."""
        row = self.rows.get(node)
        taken = [self.tokens[child] for child, parent in enumerate(self.parents) if parent == node]
        if row is None or drawn == "iid" or not taken:
            return row
        left = row.index_fill(0, torch.tensor(taken, device=row.device), 0)
        total = left.sum()
        return left / total if total > 0 else None
