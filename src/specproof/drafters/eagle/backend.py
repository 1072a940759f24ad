"""An EAGLE-3 head behind the Backend protocol, so that a model drafter draws from it as from any model.

Its text is the target's without the first token: the entry of a token is made from that token and from the
target's features of the token before. Drafted nodes have no features yet; they read what the head said at their
parent, which is kept beside the keys until the step is over.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specproof.backends.hf import HFBackend
from specproof.backends.kv import KVStore
from specproof.backends.layout import Layout, lay_out
from specproof.drafters.eagle.head import EagleHead
from specproof.drafters.none import empty_draft
from specproof.drafters.reduced import Shadows, has_features
from specproof.types import Batch, Draft, Output, TokenSequence

_STATES = 1  # the store's second layer: what the head said, one row an entry


class EagleBackend:
    """A head with its own cache.

    Args:
        head: in the target's dtype, on its device.
        target: whose features it reads.
    """

    def __init__(self, head: EagleHead, target: HFBackend) -> None:
        self.head = head
        self.target = target
        self.vocabulary = target.vocabulary
        self.context = min(target.context, int(head.config.layer.max_position_embeddings))
        self.store = KVStore(head.fc.weight.device)
        self._shadows = Shadows(first=1, last=0)

    @property
    def drafted(self) -> Tensor | None:
        """Tokens [D] whose logits are not minus infinity; None if that is all of them."""
        return None if len(self.head.d2t) == self.vocabulary else self.head.drafted

    def ready(self, sequence: TokenSequence) -> bool:
        """Whether the target has scored all that the first row needs: every token but the root, at least one."""
        return has_features(self.target, sequence)

    @torch.inference_mode()
    def forward(self, batch: Batch, draft: Draft, start: Sequence[int] | None = None) -> Output:
        """See `Backend.forward`; here a tree grows by one level at a time, and every sequence is `ready`."""
        if not any(start or ()):
            chunk = self.target.chunk
            while late := [s for s in batch if self.store.missing(self._shadows.of(s)) > chunk]:
                self._score(late, empty_draft(len(late)), limit=chunk)
                self.store.keep([self._shadows.of(sequence) for sequence in late], [()] * len(late))
        return Output(self._score(batch, draft, start))

    @torch.inference_mode()
    def keep(self, batch: Batch, paths: Sequence[Sequence[int]]) -> None:
        """See `Backend.keep`.

        Entries of accepted nodes are dropped all the same: they were made from the head's own states, and the
        next forward makes them anew from the target's features.
        """
        known = self._shadows.known(batch)
        self.store.keep(known, [()] * len(known))

    @torch.inference_mode()
    def free(self, batch: Batch) -> None:
        """Forget these sequences."""
        self.store.free(self._shadows.forget(batch))

    def _score(
        self, batch: Batch, draft: Draft, start: Sequence[int] | None = None, limit: int | None = None
    ) -> Tensor:
        """Logits [B, rows, V] in the order of the batch, of at most `limit` missing tokens."""
        shadows = [self._shadows.of(sequence) for sequence in batch]
        layout = lay_out(self.store, shadows, draft, start, limit=limit)
        self.store.begin(layout.write)
        try:
            return self._run(layout, batch, draft, start)[layout.order]
        except BaseException:
            self.store.clear()  # half-written entries must not be found by a later step
            raise

    def _run(self, layout: Layout, batch: Batch, draft: Draft, start: Sequence[int] | None) -> Tensor:
        device = self.store.device
        states = self._states(layout, batch, draft, start)
        mask = layout.mask.to(device)
        said = self.head(layout.tokens.to(device), states, layout.positions.to(device), mask, self.store)
        self.store.update(said[:, None], said[:, None, :, :0], _STATES)
        return self.head.target_logits(said[:, -layout.scored :])

    def _states(self, layout: Layout, batch: Batch, draft: Draft, start: Sequence[int] | None) -> Tensor:
        """What stands one column before each column: features at committed tokens, own words at nodes."""
        weight = self.head.fc.weight
        width = layout.scored - (start is None or not any(start))  # columns of nodes
        ahead = layout.tokens.shape[1] - width
        states = weight.new_zeros(*layout.tokens.shape, weight.shape[0])
        for b, (sequence, row) in enumerate(zip(batch, layout.order, strict=True)):
            entry = self.store.rows[layout.write.first + row]
            skip = start[b] if start else 0
            if skip == 0:
                features = self.target.features(sequence)[entry.kept : entry.kept + entry.pending]
                states[row, ahead - entry.pending : ahead] = self.head.fuse(features)
            tree, new = draft.trees[b], max(0, skip - 1)
            if new < len(tree):
                assert skip > 0, "the root comes first: an EAGLE head scores one level at a time"
                assert max(tree.parents[new:]) < new, "an EAGLE head scores one level at a time"
                root = entry.kept + entry.pending - 1
                slots = [root + 1 + parent for parent in tree.parents[new:]]
                said = self.store._keys[_STATES][layout.write.first + row, 0, slots]
                states[row, ahead : ahead + len(slots)] = said
        return states
