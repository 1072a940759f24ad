"""Speculation off: the same loop with empty drafts."""

from collections.abc import Sequence

import torch

from specproof.tree import Tree
from specproof.types import Batch, Draft, Drawn, Noise, Output, Step


def empty_draft(count: int, drawn: Drawn = "point") -> Draft:
    """A draft of no nodes for `count` sequences."""
    return Draft((Tree.chain(0),) * count, torch.zeros(count, 0, dtype=torch.long), None, drawn)


class NoDrafter:
    """Drafts nothing; every step is one plain forward."""

    drawn: Drawn = "point"
    chains = True

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """An empty tree for each sequence."""
        return empty_draft(len(batch))

    def observe(self, batch: Batch, steps: Sequence[Step], output: Output) -> None:
        """Nothing to roll back."""

    def free(self, batch: Batch) -> None:
        """Nothing to free."""
