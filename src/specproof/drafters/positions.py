"""Drafters that say all positions at once: rows by depth, whatever was drafted before them.

Tokens of such a draft are independent, so each is drawn from the row of its depth, and that row is the conditional
one too: chains and trees of every draw follow. Sampling parameters that look at the text still make rows differ
from path to path; they are applied to each node's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from specproof.backends.hf import HFBackend
from specproof.drafters.dynamic import branching
from specproof.drafters.model import ModelDrafter
from specproof.drafters.none import empty_draft
from specproof.drafters.reduced import check_features, has_features
from specproof.drafters.shapes.best_first import BestFirst, Found, best_first
from specproof.drafters.shapes.expand import Dynamic, Mixed
from specproof.errors import NumericsError, SpecproofError
from specproof.sampling import warp_batch
from specproof.tree import Tree
from specproof.types import Batch, Draft, Drawn, Noise, Output, Step, TokenSequence

Path = tuple[int, ...]


class Positions(Protocol):
    """What says the rows.

    Attributes:
        length: number of positions.
        kind: its name, for messages.
    """

    length: int
    kind: str

    def score(self, batch: Batch) -> Tensor:
        """Logits [B, length, V] of the tokens behind each sequence's root."""

    def drop(self, batch: Batch) -> None:
        """A step is over: forget what was drafted in it."""

    def free(self, batch: Batch) -> None:
        """Forget these sequences; unknown ones are ignored."""


class PositionBackend:
    """Positions behind the Backend protocol: the row after a node is that of its depth."""

    def __init__(self, positions: Positions, target: HFBackend) -> None:
        self.positions = positions
        self.vocabulary = target.vocabulary
        self.context = target.context
        self._said: dict[TokenSequence, Tensor] = {}

    def forward(self, batch: Batch, draft: Draft, start: Sequence[int] | None = None) -> Output:
        """See `Backend.forward`; a step's first call does the work."""
        skipped = start or [0] * len(batch)
        if not any(skipped):
            self._said.update(zip(batch, self.positions.score(batch), strict=True))
        width = max(len(tree) + 1 - skip for tree, skip in zip(draft.trees, skipped, strict=True))
        first = self._said[batch[0]]
        logits = first.new_zeros(len(batch), width, self.vocabulary)
        for b, (sequence, tree, skip) in enumerate(zip(batch, draft.trees, skipped, strict=True)):
            depths = (0, *tree.depths)[skip:]
            logits[b, : len(depths)] = self._said[sequence][list(depths)]
        return Output(logits)

    def said(self, sequence: TokenSequence) -> Tensor:
        """Logits [length, V] of this step."""
        return self._said[sequence]

    def keep(self, batch: Batch, paths: Sequence[Sequence[int]]) -> None:
        """Rows are made anew for every step."""
        for sequence in batch:
            self._said.pop(sequence, None)
        self.positions.drop(batch)

    def free(self, batch: Batch) -> None:
        """Forget these sequences."""
        for sequence in batch:
            self._said.pop(sequence, None)
        self.positions.free(batch)


class PositionDrafter:
    """Chains and trees from rows by depth.

    A sequence is drafted for once the target has scored its text, so from the second step on.

    Args:
        positions: what says the rows.
        target: the backend that runs, whose features they are made from.
        tree: as for `ModelDrafter`; all positions as a chain if not given. A `BestFirst` lets each step's tree be
            the most probable prefixes; that is for point drafts only.
        drawn, coupled: as for `ModelDrafter`.

    Raises:
        SpecproofError: the tree is deeper than there are positions.
    """

    def __init__(
        self,
        positions: Positions,
        target: HFBackend,
        tree: Tree | int | Dynamic | Mixed | BestFirst | None = None,
        drawn: Drawn = "iid",
        *,
        coupled: bool = False,
    ) -> None:
        self.target = target
        self.positions = positions
        self.backend = PositionBackend(positions, target)
        self.plan = tree if isinstance(tree, BestFirst) else None
        if self.plan is not None and (drawn != "point" or coupled):
            raise SpecproofError(
                "a best-first tree drops nodes by their value, which biases "
                f"{'coupled' if coupled else drawn} draws: give drawn='point', or a fixed tree"
            )
        shape = positions.length if tree is None or isinstance(tree, BestFirst) else tree
        self.inner = ModelDrafter(self.backend, shape, drawn, coupled=coupled)
        grown = self.inner.at_zero
        depth = max([*self.inner.tree.depths[-1:], *([grown.depth] if grown else [])])
        if depth > positions.length:
            raise SpecproofError(
                f"a draft of depth {depth} is not allowed: {positions.kind} says {positions.length} positions"
            )
        self.drawn: Drawn = self.inner.drawn
        self.chains = self.inner.chains and self.plan is None

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """A tree for each sequence that the target has features of; nothing for the others."""
        most = [
            nodes if has_features(self.target, sequence) else 0
            for sequence, nodes in zip(batch, budget, strict=True)
        ]
        return self.inner.draft(batch, most, noise) if self.plan is None else self._grow(batch, most, self.plan)

    def observe(self, batch: Batch, steps: Sequence[Step], output: Output) -> None:
        """Forget the step's rows.

        Raises:
            SpecproofError: the target of this drafter is not the one that runs.
        """
        self.inner.observe(batch, steps, output)
        check_features(self.target, batch, self.positions.kind)

    def free(self, batch: Batch) -> None:
        """Forget these sequences."""
        self.inner.free(batch)

    def _grow(self, batch: Batch, budget: Sequence[int], plan: BestFirst) -> Draft:
        """The most probable prefixes of each sequence's rows."""
        asked = [sequence for sequence, most in zip(batch, budget, strict=True) if most > 0]
        if not asked:
            return empty_draft(len(batch))
        self.backend.forward(asked, empty_draft(len(asked)))
        found = [
            self._prefixes(sequence, min(most, plan.nodes)) if most > 0 else []
            for sequence, most in zip(batch, budget, strict=True)
        ]
        width = max(map(len, found))
        tokens = [[node.item[-1] for node in nodes] + [0] * (width - len(nodes)) for nodes in found]
        trees = tuple(Tree(tuple(node.parent for node in nodes)) for nodes in found)
        return Draft(trees, torch.tensor(tokens, dtype=torch.long).reshape(len(batch), width), None, "point")

    def _prefixes(self, sequence: TokenSequence, most: int) -> list[Found[Path]]:
        deepest = min(self.positions.length, self.backend.context - len(sequence.tokens) + 1)
        ranked: dict[int | Path, list[tuple[float, int]]] = {}

        def children(path: Path) -> Iterator[tuple[float, Path]]:
            if len(path) >= deepest:
                return
            # Where nothing looks at the text, one row is that of all nodes of its depth.
            place = path if sequence.processors else len(path)
            if place not in ranked:
                row = self._row(sequence, path)
                shares, tokens = row.topk(min(most, len(row)))
                ranked[place] = list(zip(shares.tolist(), tokens.tolist(), strict=True))
            for share, token in ranked[place]:
                yield share, (*path, token)

        return best_first(children, (), most)

    def _row(self, sequence: TokenSequence, path: Path) -> Tensor:
        """What may follow a path [V]; nothing at all where everything is forbidden."""
        logits = self.backend.said(sequence)[len(path)]
        below = Draft((Tree.chain(len(path)),), torch.tensor([path], dtype=torch.long), None, "point")
        rows, broken = warp_batch(logits[None, None], [branching(sequence)], below, [len(path)])
        if not bool(broken[0, 0]):
            return rows[0, 0]
        if not bool(logits.logsumexp(-1).isfinite()):
            raise NumericsError("the draft model's logits hold NaN or infinity")
        return torch.zeros_like(rows[0, 0])
