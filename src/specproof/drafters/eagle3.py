"""EAGLE-3: a small head drafts from the target's own hidden states, over a reduced vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

from specproof.backends.hf import HFBackend
from specproof.drafters.eagle.backend import EagleBackend
from specproof.drafters.eagle.head import TAPS, EagleHead
from specproof.drafters.model import ModelDrafter
from specproof.drafters.reduced import check_features
from specproof.drafters.shapes.expand import Dynamic, Mixed
from specproof.errors import SpecproofError
from specproof.tree import Tree
from specproof.types import Batch, Draft, Drawn, Noise, Output, Step


class Eagle3Drafter:
    """Draws each node from the head's row under the sequence's own sampling parameters.

    A sequence is drafted for once the target has scored its text, so from the second step on. Tokens outside
    the draft vocabulary are never drafted; the rows say so, and the law stays the target's.

    Args:
        head: with the target's embedding; see `checkpoint.load_head`.
        target: built with the head's taps.
        tree, drawn, coupled: as for `ModelDrafter`; a chain of the head's own length if no tree is given.

    Raises:
        SpecproofError: the head is not for this target.
    """

    def __init__(
        self,
        head: EagleHead,
        target: HFBackend,
        tree: Tree | int | Dynamic | Mixed | None = None,
        drawn: Drawn = "iid",
        *,
        coupled: bool = False,
    ) -> None:
        _check(head, target)
        self.target = target
        self.backend = EagleBackend(head, target)
        shape = head.config.length if tree is None else tree
        self.inner = ModelDrafter(self.backend, shape, drawn, coupled=coupled)
        self.drawn: Drawn = self.inner.drawn
        self.chains = self.inner.chains

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """A tree for each sequence that the target has features of; nothing for the others."""
        most = [
            nodes if self.backend.ready(sequence) else 0 for sequence, nodes in zip(batch, budget, strict=True)
        ]
        return self.inner.draft(batch, most, noise)

    def observe(self, batch: Batch, steps: Sequence[Step], output: Output) -> None:
        """Drop what was drafted: accepted tokens are read again, with the target's features.

        Raises:
            SpecproofError: the target of this drafter is not the one that runs.
        """
        self.inner.observe(batch, steps, output)
        check_features(self.target, batch, "EAGLE-3")

    def free(self, batch: Batch) -> None:
        """Forget these sequences."""
        self.inner.free(batch)


def _check(head: EagleHead, target: HFBackend) -> None:
    config = head.config
    if config.layer.vocab_size != target.vocabulary:
        raise SpecproofError(
            f"the EAGLE-3 head is for a vocabulary of {config.layer.vocab_size} tokens and the target has "
            f"{target.vocabulary}; give the head that was trained for this target"
        )
    width = int(target.model.get_input_embeddings().weight.shape[1])
    if config.target_width != width:
        raise SpecproofError(
            f"the EAGLE-3 head reads hidden states of width {config.target_width} and the target's have {width}; "
            "give the head that was trained for this target"
        )
    if target.taps != config.taps or len(config.taps) != TAPS:
        raise SpecproofError(
            f"the EAGLE-3 head reads layers {config.taps} and the target keeps {target.taps}: "
            f"build it with taps={config.taps}"
        )
