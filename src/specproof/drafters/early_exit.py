"""Self-speculation: the target's own first layers, its final norm and its head are the draft model.

No second model is needed, no weight is copied, and no key: the draft reads the target's own keys and values of the
text, in these layers. What it adds for the root and for drafted tokens stands where the target's next forward will
write the same, and is taken back before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from typing import Any

from torch import nn

from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.drafters.shapes.expand import Dynamic, Mixed
from specproof.errors import SpecproofError
from specproof.tree import Tree
from specproof.types import Backend, Batch, Draft, Drawn, Noise, Output, Step

# Where a model's decoder layers are found, by transformers' model type.
_LAYERS = {"gpt2": "h", "llama": "layers", "qwen2": "layers", "qwen3": "layers"}


class EarlyExitDrafter(ModelDrafter):
    """Drafts with the target cut off after its first layers.

    A sequence is drafted for once the target has scored its text, so from the second step on.

    A target that was not trained to be left early predicts little there; with all layers the draft is the
    target, and every draft at temperature 0 is accepted.

    Args:
        target: a transformers target of the Llama, Qwen or GPT-2 family; the backend that runs.
        layers: how many of its layers draft; half of them if not given.
        tree, drawn, coupled: as for `ModelDrafter`.

    Source: LayerSkip (2404.16710); when drafted tokens are verified, their first layers are computed once more.
    """

    def __init__(
        self,
        target: Backend,
        layers: int | None = None,
        tree: Tree | int | Dynamic | Mixed = 4,
        drawn: Drawn = "iid",
        *,
        coupled: bool = False,
    ) -> None:
        if not isinstance(target, HFBackend):
            raise SpecproofError(
                f"drafter 'early_exit' needs a transformers target, not a {type(target).__name__}"
            )
        self.target = target
        super().__init__(_FirstLayers(target, layers), tree, drawn, coupled=coupled)

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """A tree for each sequence whose text the target has read but for the root; nothing for the others."""
        missing = [self.target.store.missing(sequence) for sequence in batch]
        most = [nodes if left == 1 else 0 for nodes, left in zip(budget, missing, strict=True)]
        try:
            return super().draft(batch, most, noise)
        finally:
            self.target.store.rewind(batch)

    def observe(self, batch: Batch, steps: Sequence[Step], output: Output) -> None:
        """Nothing to roll back but what the target has rolled back.

        Raises:
            SpecproofError: the target of this drafter is not the one that runs.
        """
        super().observe(batch, steps, output)
        if any(self.target.store.missing(sequence) > 1 for sequence in batch):
            raise SpecproofError(
                "drafter 'early_exit' reads the keys of another backend than the one that runs: "
                "build both with the same HFBackend"
            )


class _FirstLayers:
    """The first layers as a backend on the target's own store, which the target keeps, drops and frees."""

    def __init__(self, target: HFBackend, layers: int | None) -> None:
        self.vocabulary, self.context = target.vocabulary, target.context
        self._short = HFBackend(first_layers(target.model, layers), target.context, mixed=target.mixed)
        self._short.store = target.store  # now that it has shown what it can do on one of its own
        self.model = self._short.model

    def forward(self, batch: Batch, draft: Draft, start: Sequence[int] | None = None) -> Output:
        """See `Backend.forward`; what it adds is in flight until the store is rewound."""
        return self._short.forward(batch, draft, start)

    def keep(self, batch: Batch, paths: Sequence[Sequence[int]]) -> None:
        """Nothing: what was in flight here was taken back."""

    def free(self, batch: Batch) -> None:
        """Nothing of its own."""


def first_layers(model: Any, layers: int | None = None) -> Any:
    """The same model with its first `layers` decoder layers only (half of them if None), sharing all weights.

    Raises:
        SpecproofError: another family, or a number of layers that it does not have.
    """
    kind = model.config.model_type
    if kind not in _LAYERS:
        raise SpecproofError(
            f"no early exit from {kind!r} models; give a target of one of: {', '.join(sorted(_LAYERS))}"
        )
    inner = _twin(model.base_model)
    own = list(getattr(inner, _LAYERS[kind]))
    count = max(1, len(own) // 2) if layers is None else layers
    if not 1 <= count <= len(own):
        raise SpecproofError(f"layers={count} is not allowed: this model has {len(own)}, give 1 to {len(own)}")
    config = deepcopy(model.config)
    config.num_hidden_layers = count
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:count]
    setattr(inner, _LAYERS[kind], nn.ModuleList(own[:count]))
    short = _twin(model)
    setattr(short, model.base_model_prefix, inner)
    inner.config = short.config = config
    return short


def _twin(module: Any) -> Any:
    """The same module with a list of parts of its own: exchanging one leaves the other alone."""
    twin = copy(module)
    twin._modules = dict(module._modules)
    return twin
