"""EAGLE-3 checkpoints: the speculators format (read and written) and the published layout (read).

The speculators format nests the layer's configuration and says for which model it is; vLLM serves it. Published
checkpoints (SafeAILab/EAGLE, sgl-project/SpecForge) are flat and call the layer "midlayer". Safetensors only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig

from specproof.drafters.checkpoint import (
    about,
    add_vocabulary,
    fill,
    length_of,
    read_values,
    read_weights,
    verifier_of,
    write,
)
from specproof.drafters.eagle.head import TAPS, EagleHead, HeadConfig, default_taps
from specproof.errors import SpecproofError

_KIND = "an EAGLE-3"
# Weights of the target's that some checkpoints carry along, and tables that are computed.
_IGNORED = ("verifier_norm.", "verifier_lm_head.", "rotary_emb.", "layers.0.self_attn.rotary_emb.")


def read_config(folder: Path, layers: int) -> HeadConfig:
    """The head's configuration.

    Args:
        folder: of the checkpoint.
        layers: number of the target's layers, for checkpoints that do not say which of them they read.

    Raises:
        SpecproofError: there is none, or it is no EAGLE-3 head that can be run.
    """
    values = read_values(folder, _KIND)
    kind = values.get("speculators_model_type")
    if kind not in (None, "eagle3"):
        raise SpecproofError(f"{folder} holds a speculator of type {kind!r}; only 'eagle3' can be loaded")
    if kind is None and "draft_vocab_size" not in values:
        raise SpecproofError(f"{folder} is not of an EAGLE-3 head (no draft_vocab_size); give the head's folder")
    nested = values.get("transformer_layer_config", {}) if kind else values
    model_type, depth = nested.get("model_type", "llama"), nested.get("num_hidden_layers", 1)
    if model_type != "llama" or depth != 1:
        raise SpecproofError(
            f"{folder}: a head of {depth} {model_type} layers cannot be run; give one with one llama layer"
        )
    given = {name: value for name, value in nested.items() if name not in ("architectures", "auto_map", "dtype")}
    layer = LlamaConfig(**given | {"num_hidden_layers": 1})
    target, architectures = verifier_of(values)
    taps = values.get("eagle_aux_hidden_state_layer_ids")
    taps = taps or (values.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids")
    taps = tuple(int(tap) for tap in taps or default_taps(layers))
    if len(taps) != TAPS:
        raise SpecproofError(f"{folder}: the head reads layers {taps}; it has to be {TAPS} of them")
    return HeadConfig(
        layer=layer,
        draft_vocabulary=int(values.get("draft_vocab_size") or layer.vocab_size),
        target_width=int(values.get("target_hidden_size") or layer.hidden_size),
        taps=taps,
        norm_before_residual=bool(values.get("norm_before_residual", False)),
        norm_before_fc=bool(values.get("norm_before_fc", False)),
        length=length_of(values, HeadConfig.length),
        target=target,
        architectures=architectures,
        provenance=values.get("specproof") or {},
    )


def load_head(folder: Path, layers: int, embedding: Tensor) -> EagleHead:
    """A head in evaluation mode, in the embedding's dtype and on its device.

    Args:
        folder: of the checkpoint.
        layers: number of the target's layers.
        embedding: the target's, [V, width]; shared if the checkpoint has none of its own.

    Raises:
        SpecproofError: not a checkpoint that can be loaded, or not for a target with this embedding.
    """
    config = read_config(folder, layers)
    weights = read_weights(folder, _name)
    own = weights.get("embed_tokens.weight")
    if own is None and tuple(embedding.shape) != (config.layer.vocab_size, config.layer.hidden_size):
        raise SpecproofError(
            f"{folder}: the head needs an embedding of {config.layer.vocab_size} tokens and width "
            f"{config.layer.hidden_size}, the target's is {tuple(embedding.shape)}; give the head of this target"
        )
    with torch.device("meta"):
        head = EagleHead(config)
    weights["embed_tokens.weight"] = embedding if own is None else own
    add_vocabulary(weights, config.draft_vocabulary, config.layer.vocab_size, folder)
    fill(head, weights, embedding, folder, _KIND)
    return head


def save_head(head: EagleHead, folder: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write a head in the speculators format, without the embedding, which is the target's."""
    weights = {name: value for name, value in head.state_dict().items() if name != "embed_tokens.weight"}
    write(folder, weights, _document(head.config), dtype)


def _document(config: HeadConfig) -> dict[str, Any]:
    layer = config.layer.to_dict()
    names = (
        *(
            "attention_bias",
            "head_dim",
            "hidden_act",
            "hidden_size",
            "intermediate_size",
            "mlp_bias",
            "vocab_size",
        ),
        *("max_position_embeddings", "num_attention_heads", "num_hidden_layers", "num_key_value_heads"),
        *("rms_norm_eps", "rope_parameters"),
    )
    return {
        "architectures": ["Eagle3Speculator"],
        **about("eagle3", config.length, config.target, config.architectures),
        "draft_vocab_size": config.draft_vocabulary,
        "target_hidden_size": config.target_width,
        "eagle_aux_hidden_state_layer_ids": list(config.taps),
        "norm_before_residual": config.norm_before_residual,
        "norm_before_fc": config.norm_before_fc,
        "embed_requires_grad": False,
        # Readers from before transformers 5 look for the base of the rotation outside its parameters.
        "transformer_layer_config": {"model_type": "llama", "rope_theta": layer["rope_parameters"]["rope_theta"]}
        | {name: layer[name] for name in names},
        "specproof": dict(config.provenance),
    }


def _name(name: str) -> str | None:
    name = name.replace("midlayer.", "layers.0.")
    return None if name.startswith(_IGNORED) else name
