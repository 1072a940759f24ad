"""Self-speculation: the target's own first layers, its final norm and its head are the draft model.

No second model is needed and no weight is copied. The draft has keys and values of its own: the first layers
of a committed token are computed once for the draft and once for the target.
"""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

from torch import nn

from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.drafters.shapes.expand import Dynamic
from specproof.errors import SpecproofError
from specproof.tree import Tree
from specproof.types import Backend, Drawn

# Where a model's decoder layers are found, by transformers' model type.
_LAYERS = {"gpt2": "h", "llama": "layers", "qwen2": "layers", "qwen3": "layers"}


class EarlyExitDrafter(ModelDrafter):
    """Drafts with the target cut off after its first layers.

    A target that was not trained to be left early predicts little there; with all layers the draft is the
    target, and every draft at temperature 0 is accepted.

    Args:
        target: a transformers target of the Llama, Qwen or GPT-2 family.
        layers: how many of its layers draft; half of them if not given.
        tree, drawn, coupled: as for `ModelDrafter`.

    Source: LayerSkip (2404.16710), without sharing of keys and values.
    """

    def __init__(
        self,
        target: Backend,
        layers: int | None = None,
        tree: Tree | int | Dynamic = 4,
        drawn: Drawn = "iid",
        *,
        coupled: bool = False,
    ) -> None:
        if not isinstance(target, HFBackend):
            raise SpecproofError(
                f"drafter 'early_exit' needs a transformers target, not a {type(target).__name__}"
            )
        draft = HFBackend(first_layers(target.model, layers), target.context)
        super().__init__(draft, tree, drawn, coupled=coupled)


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
