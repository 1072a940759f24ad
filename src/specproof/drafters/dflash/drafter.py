"""DFlash: a block-diffusion head drafts a whole block from the target's hidden states in one pass."""

from __future__ import annotations

import torch
from torch import Tensor

from specproof.backends.hf import HFBackend
from specproof.backends.kv import KVStore
from specproof.backends.layout import lay_out
from specproof.drafters.dflash.head import DFlashHead
from specproof.drafters.none import empty_draft
from specproof.drafters.positions import PositionDrafter
from specproof.drafters.reduced import Shadows
from specproof.drafters.shapes.best_first import BestFirst
from specproof.drafters.shapes.expand import Dynamic, Mixed
from specproof.errors import SpecproofError
from specproof.tree import Tree
from specproof.types import Batch, Draft, Drawn


class DFlashDrafter(PositionDrafter):
    """Draws each token from the row of its place in the block under the sequence's own sampling parameters.

    Args:
        head: with the target's embedding and output rows; see `checkpoint.load_dflash`.
        target: built with the head's taps.
        tree, drawn, coupled: as for `PositionDrafter`; a `BestFirst` is DDTree (2604.12989).

    Raises:
        SpecproofError: the head is not for this target.
    """

    def __init__(
        self,
        head: DFlashHead,
        target: HFBackend,
        tree: Tree | int | Dynamic | Mixed | BestFirst | None = None,
        drawn: Drawn = "iid",
        *,
        coupled: bool = False,
    ) -> None:
        _check(head, target)
        self.blocks = Blocks(head, target)
        super().__init__(self.blocks, target, tree, drawn, coupled=coupled)


class Blocks:
    """Positions of a block, and the cache of the text's features behind them.

    The store holds keys and values of every token but the root, made from the target's features; those of a block
    stand behind them for one pass and are dropped, since accepted tokens get features of their own.
    """

    kind = "DFlash"

    def __init__(self, head: DFlashHead, target: HFBackend) -> None:
        self.head = head
        self.target = target
        self.length = head.config.block - 1
        self.store = KVStore(head.fc.weight.device)
        self.shadows = Shadows(first=0, last=1)

    @torch.inference_mode()
    def score(self, batch: Batch) -> Tensor:
        """See `Positions.score`."""
        chunk = self.target.chunk
        while late := [s for s in batch if self.store.missing(self.shadows.of(s)) > chunk]:
            self._pass(late, empty_draft(len(late)), limit=chunk)
            self.store.keep([self.shadows.of(sequence) for sequence in late], [()] * len(late))
        config = self.head.config
        blocks = torch.full((len(batch), config.block), config.mask)
        blocks[:, 0] = torch.tensor([sequence.tokens[-1] for sequence in batch])
        draft = Draft((Tree.chain(config.block),) * len(batch), blocks, None, "point")
        return self._pass(batch, draft)[:, 1:]

    @torch.inference_mode()
    def drop(self, batch: Batch) -> None:
        """Drop the block's entries."""
        known = self.shadows.known(batch)
        self.store.keep(known, [()] * len(known))

    @torch.inference_mode()
    def free(self, batch: Batch) -> None:
        """Forget these sequences."""
        self.store.free(self.shadows.forget(batch))

    def _pass(self, batch: Batch, draft: Draft, limit: int | None = None) -> Tensor:
        """Logits [B, block, V] in the order of the batch, after taking in at most `limit` missing features."""
        layout = lay_out(self.store, [self.shadows.of(sequence) for sequence in batch], draft, limit=limit)
        device, width = self.store.device, draft.tokens.shape[1]
        ahead = layout.tokens.shape[1] - width
        weight = self.head.fc.weight
        features = weight.new_zeros(len(layout.tokens), ahead, weight.shape[1])
        mask = layout.mask[:, :, ahead:].clone()
        for sequence, row in zip(batch, layout.order, strict=True):
            entry = self.store.rows[layout.write.first + row]
            new = self.target.features(sequence)[entry.kept : entry.committed]
            features[row, ahead - len(new) :] = new
            mask[row, 0, :, entry.committed : entry.used] = True  # a block is seen whole
        self.store.begin(layout.write)
        try:
            tokens, positions = layout.tokens[:, ahead:].to(device), layout.positions.to(device)
            said: Tensor = self.head(tokens, features, positions, mask.to(device), self.store)
        except BaseException:
            self.store.clear()  # half-written entries must not be found by a later step
            raise
        return said[layout.order]


def _check(head: DFlashHead, target: HFBackend) -> None:
    config = head.config
    if config.layer.vocab_size != target.vocabulary:
        raise SpecproofError(
            f"the DFlash head is for a vocabulary of {config.layer.vocab_size} tokens and the target has "
            f"{target.vocabulary}; give the head that was trained for this target"
        )
    width = int(target.model.get_input_embeddings().weight.shape[1])
    if config.target_width != width:
        raise SpecproofError(
            f"the DFlash head reads hidden states of width {config.target_width} and the target's have {width}; "
            "give the head that was trained for this target"
        )
    if target.taps != config.taps:
        raise SpecproofError(
            f"the DFlash head reads layers {config.taps} and the target keeps {target.taps}: "
            f"build it with taps={config.taps}"
        )
