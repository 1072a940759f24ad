"""Any transformers decoder-only model that takes a 4-D mask, explicit positions and a cache object.

A model whose state cannot be rolled back (recurrent, sliding window) is refused when the backend is built,
and every other model has to show on a small tree that masks and positions reach its attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from specproof.backends.kv import KVStore
from specproof.backends.layout import Layout, lay_out
from specproof.errors import SpecproofError
from specproof.tree import Tree
from specproof.types import Batch, Draft, Output, SamplingParams, TokenSequence

# Largest difference, in standard deviations of the logits, between a tree scored in one pass and
# recomputation. Rounding stays far below; a mask or position that is not honoured is of order 1.
_PROBE_TOLERANCE = 0.2
_REFUSAL = "does not run with a tree mask, positions and a cache object; give a model that transformers runs so"


class HFBackend:
    """A transformers model behind the Backend protocol.

    Args:
        model: a decoder-only model with a language-model head, in evaluation mode.
        context: most tokens of a text; the model's own limit if not given.
        taps: hidden states that are kept beside the keys, for drafters that read them (`features`): numbers of
            decoder layers, whose inputs they are; the number of layers stands for what the head reads.
        chunk: most missing tokens of a text that one pass reads. A text that was never seen, or was forgotten
            for want of memory, is caught up in pieces, since a mask has chunk x length entries.
        mixed: the model casts its weights in each forward (autocast). In torch's inference mode, which is faster,
            every cast would be made anew.

    Raises:
        SpecproofError: the model cannot be rolled back, does not honour mask and positions, or has no such layer.
    """

    def __init__(
        self,
        model: Any,
        context: int | None = None,
        *,
        chunk: int = 512,
        taps: Sequence[int] = (),
        mixed: bool = False,
    ) -> None:
        if chunk < 1:
            raise SpecproofError(f"chunk={chunk} is not allowed: a pass reads 1 token or more")
        refuse_state(model)
        self.model = model
        self.mixed = mixed
        self.taps = tuple(taps)
        layers = int(model.config.num_hidden_layers)
        if wrong := [tap for tap in self.taps if not 0 <= tap <= layers]:
            raise SpecproofError(f"tap {wrong[0]} is not allowed: give 0 to {layers}, its number of layers")
        self.vocabulary = int(model.get_output_embeddings().weight.shape[0])
        own = int(getattr(model.config, "max_position_embeddings", None) or 1 << 30)
        if context is not None and not 0 < context <= own:
            raise SpecproofError(f"context={context} is not allowed: this model takes 1 to {own} tokens")
        self.context = context or own
        self.chunk = chunk
        self.store = KVStore(model.device)
        try:
            error = _probe(self)
        except (TypeError, ValueError, RuntimeError, IndexError) as failure:
            raise SpecproofError(f"{type(model).__name__} {_REFUSAL} (it failed: {failure})") from failure
        if not error < _PROBE_TOLERANCE:
            raise SpecproofError(
                f"{type(model).__name__} {_REFUSAL} (its logits are off by {error:.2g} standard deviations)"
            )

    def mode(self) -> AbstractContextManager[None]:
        """What everything here runs in, and whoever changes the store: no gradients."""
        return torch.no_grad() if self.mixed else torch.inference_mode()

    def forward(self, batch: Batch, draft: Draft, start: Sequence[int] | None = None) -> Output:
        """See `Backend.forward`; logits are in the model's dtype."""
        with self.mode():
            if not any(start or ()):
                while late := [sequence for sequence in batch if self.store.missing(sequence) > self.chunk]:
                    self._score(lay_out(self.store, late, _empty(len(late)), limit=self.chunk))
                    self.store.keep(late, [()] * len(late))
            return Output(self._score(lay_out(self.store, batch, draft, start)))

    def keep(self, batch: Batch, paths: Sequence[Sequence[int]]) -> None:
        """See `Backend.keep`."""
        with self.mode():
            self.store.keep(batch, paths)

    def free(self, batch: Batch) -> None:
        """See `Backend.free`."""
        with self.mode():
            self.store.free(batch)

    def clear(self) -> None:
        """Forget all sequences."""
        with self.mode():
            self.store.clear()

    def features(self, sequence: TokenSequence) -> Tensor:
        """Features [n, taps x width] of the first n tokens of a text: those that were scored and kept."""
        return self.store.kept(sequence, layer=int(self.model.config.num_hidden_layers))

    def _score(self, layout: Layout) -> Tensor:
        """Logits [B, rows, V] in the order of the batch; NaN after a broken node stays with its descendants."""
        self.store.begin(layout.write)
        try:
            logits = self._run(layout)
            # A hidden state that is not finite makes all of a position's logits NaN: one of them tells.
            if bool(logits[..., 0].isnan().any()):
                with self.store.guarded():
                    logits = self._run(layout)
        except BaseException:
            self.store.clear()  # half-written entries must not be found by a later step
            raise
        for index, row in enumerate(self.store.rows[layout.write.first : layout.write.last]):
            if row.broken:
                sees = layout.mask[index, 0][-layout.scored :, sorted(row.broken)].any(-1)
                logits[index, sees.to(logits.device)] = torch.nan
        return logits if layout.order == list(range(len(logits))) else logits[layout.order]

    def _run(self, layout: Layout) -> Tensor:
        device = self.store.device
        # Added to the scores: what eager attention needs, and what costs the fused one least.
        mask = torch.zeros(layout.mask.shape, dtype=self.model.dtype, device=device)
        mask.masked_fill_(~layout.mask.to(device), torch.finfo(mask.dtype).min)
        result = self.model(
            input_ids=layout.tokens.to(device),
            position_ids=layout.positions.to(device),
            attention_mask=mask,
            cache=self.store,
            use_cache=True,
            logits_to_keep=layout.scored,
            output_hidden_states=bool(self.taps),
        )
        if self.taps:
            # One more layer of the store, so that they move and are dropped with the keys.
            states = torch.cat([result.hidden_states[tap] for tap in self.taps], -1)[:, None]
            self.store.update(states, states[..., :0], int(self.model.config.num_hidden_layers))
        logits: Tensor = result.logits
        return logits


def refuse_state(model: Any) -> None:
    """Raise if the model keeps state that cannot be rolled back, or an attention that takes no mask."""
    config = model.config
    name = type(model).__name__
    if getattr(config, "is_encoder_decoder", False):
        raise SpecproofError(f"{name} is an encoder-decoder model; give a decoder-only one")
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        kinds.add("sliding_attention")
    if getattr(model, "_is_stateful", False):
        kinds.add("recurrent state")
    if kinds:
        raise SpecproofError(
            f"{name} cannot be rolled back after a rejection: it has {', '.join(sorted(kinds))}; "
            "give a model with full attention in every layer"
        )
    attention = config._attn_implementation
    if attention not in ("sdpa", "eager"):
        raise SpecproofError(f"attention {attention!r} takes no tree mask; load with attn_implementation='sdpa'")


def _empty(count: int) -> Draft:
    return Draft((Tree.chain(0),) * count, torch.zeros(count, 0, dtype=torch.long), None, "point")


def _probe(backend: HFBackend) -> float:
    """Score ragged small trees, move accepted nodes, go on; the largest difference from recomputation.

    In standard deviations of the logits. A context too short for the trees (tests of limits) gives 0.
    """
    if backend.context < 8:
        return 0.0
    size = backend.vocabulary
    spread = max(1, size // 7)
    nodes = [2 * spread % size, 4 * spread % size, 5 * spread % size]
    batch = [
        TokenSequence([(i * spread + 1) % size for i in range(length)], length, SamplingParams(), 0)
        for length in (3, 1)
    ]
    tree = Tree((-1, -1, 1))
    paths = [tree.path(node) for node in range(-1, len(tree))]
    draft = Draft((tree, tree), torch.tensor([nodes, nodes]), None, "point")
    found = [backend.forward(batch, draft).logits.flatten(0, 1)]
    expected = [
        _recompute(backend, sequence.tokens + [nodes[node] for node in path])
        for sequence in batch
        for path in paths
    ]
    for sequence in batch:
        sequence.tokens += [nodes[1], nodes[2], 0]
    backend.keep(batch, [(1, 2)] * 2)
    found.append(backend.forward(batch, _empty(2)).logits.flatten(0, 1))
    expected += [_recompute(backend, sequence.tokens) for sequence in batch]
    backend.free(batch)
    reference = torch.stack(expected).double()
    return float((torch.cat(found).double() - reference).abs().max() / reference.std())


@torch.inference_mode()
def _recompute(backend: HFBackend, tokens: list[int]) -> Tensor:
    ids = torch.tensor([tokens], device=backend.store.device)
    logits: Tensor = backend.model(input_ids=ids, use_cache=False).logits[0, -1]
    return logits
