"""Medusa: heads on the target's last hidden state draft several tokens at once."""

from __future__ import annotations

import torch
from torch import Tensor

from specproof.backends.hf import HFBackend
from specproof.drafters.medusa.head import MedusaHead
from specproof.drafters.positions import PositionDrafter
from specproof.drafters.shapes.best_first import BestFirst
from specproof.drafters.shapes.expand import Dynamic, Mixed
from specproof.errors import SpecproofError
from specproof.tree import Tree
from specproof.types import Batch, Drawn


class MedusaDrafter(PositionDrafter):
    """Draws each token from the row of its depth under the sequence's own sampling parameters.

    Args:
        head: in the target's dtype, on its device.
        target: built with the head's taps.
        tree, drawn, coupled: as for `PositionDrafter`.

    Raises:
        SpecproofError: the head is not for this target.
    """

    def __init__(
        self,
        head: MedusaHead,
        target: HFBackend,
        tree: Tree | int | Dynamic | Mixed | BestFirst | None = None,
        drawn: Drawn = "iid",
        *,
        coupled: bool = False,
    ) -> None:
        _check(head, target)
        super().__init__(_Heads(head, target), target, tree, drawn, coupled=coupled)


class _Heads:
    """Positions without a state: everything is in the target's features."""

    kind = "Medusa"

    def __init__(self, head: MedusaHead, target: HFBackend) -> None:
        self.head = head
        self.target = target
        self.length = head.config.heads

    @torch.inference_mode()
    def score(self, batch: Batch) -> Tensor:
        """See `Positions.score`."""
        # The root was not scored yet, so the last feature is that of the token before it.
        states = torch.stack([self.target.features(s)[len(s.tokens) - 2] for s in batch])
        said: Tensor = self.head(states)
        return said

    def drop(self, batch: Batch) -> None:
        """Nothing to forget."""

    def free(self, batch: Batch) -> None:
        """Nothing to free."""


def _check(head: MedusaHead, target: HFBackend) -> None:
    config = head.config
    if config.vocabulary != target.vocabulary:
        raise SpecproofError(
            f"the Medusa heads are for a vocabulary of {config.vocabulary} tokens and the target has "
            f"{target.vocabulary}; give the heads that were trained for this target"
        )
    width = int(target.model.get_output_embeddings().weight.shape[1])
    if config.width != width:
        raise SpecproofError(
            f"the Medusa heads read hidden states of width {config.width} and the target's have {width}; "
            "give the heads that were trained for this target"
        )
    if target.taps != config.taps:
        raise SpecproofError(
            f"the Medusa heads read layer {config.taps} and the target keeps {target.taps}: "
            f"build it with taps={config.taps}"
        )
