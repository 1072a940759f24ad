"""An exact toy model: the next-token row is looked up by the last tokens of the context.

The auditor sums laws over it, and tests use it where a real model would only add rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specproof.errors import SpecproofError
from specproof.types import Batch, Draft, Output


@dataclass(frozen=True)
class TableModel:
    """Rows for every context up to a length; longer contexts count by their last `order` tokens.

    Attributes:
        levels: `levels[n]` is [V**n, V] float64, the rows after each context of n tokens, which stand in
            the order of their numbers in base V.
    """

    levels: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        for n, level in enumerate(self.levels):
            if level.shape != (self.vocabulary**n, self.vocabulary):
                raise SpecproofError(f"table level {n} is {tuple(level.shape)}; give [V**{n}, V]")
            if bool((level < 0).any()) or not torch.allclose(level.sum(-1), torch.ones(len(level)).double()):
                raise SpecproofError(f"table level {n} has a row that is negative or does not sum to 1")

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return self.levels[0].shape[1]

    @property
    def order(self) -> int:
        """Longest context that is told apart."""
        return len(self.levels) - 1

    @staticmethod
    def constant(row: Sequence[float]) -> TableModel:
        """The model that ignores its context."""
        return TableModel((torch.tensor([row], dtype=torch.float64),))

    @staticmethod
    def random(vocabulary: int, order: int, generator: torch.Generator, zeros: float = 0.0) -> TableModel:
        """Random rows for every context; each token has no mass with probability `zeros`, one always has."""
        levels = []
        for n in range(order + 1):
            shape = (vocabulary**n, vocabulary)
            mass = torch.rand(shape, generator=generator, dtype=torch.float64).log().neg()
            mass *= torch.rand(shape, generator=generator) >= zeros
            empty = mass.sum(-1) == 0
            mass[empty, torch.randint(vocabulary, (), generator=generator)] = 1
            levels.append(mass / mass.sum(-1, keepdim=True))
        return TableModel(tuple(levels))

    def row(self, context: Sequence[int]) -> Tensor:
        """Next-token row [V] after a context."""
        last = context[max(0, len(context) - self.order) :]
        number = 0
        for token in last:
            number = number * self.vocabulary + token
        return self.levels[len(last)][number]


class TableBackend:
    """A `TableModel` behind the Backend protocol. It has no state, so there is nothing to roll back."""

    def __init__(self, model: TableModel, context: int = 1 << 20) -> None:
        self.model = model
        self.vocabulary = model.vocabulary
        self.context = context

    def forward(self, batch: Batch, draft: Draft, start: Sequence[int] | None = None) -> Output:
        """See `Backend.forward`; logits are logarithms of the table's rows."""
        skipped = start or [0] * len(batch)
        width = max(len(tree) + 1 - skip for tree, skip in zip(draft.trees, skipped, strict=True))
        rows = torch.ones(len(batch), width, self.vocabulary, dtype=torch.float64)
        for b, (sequence, tree, tokens) in enumerate(zip(batch, draft.trees, draft.tokens.tolist(), strict=True)):
            for row in range(skipped[b], len(tree) + 1):
                drafted = [tokens[i] for i in tree.path(row - 1)]
                rows[b, row - skipped[b]] = self.model.row(sequence.tokens + drafted)
        return Output(rows.log())

    def keep(self, batch: Batch, paths: Sequence[Sequence[int]]) -> None:
        """Nothing to keep."""

    def free(self, batch: Batch) -> None:
        """Nothing to free."""
