"""DFlash checkpoints: the speculators format (read and written) and the published layout (read).

Both name the weights alike. The published configuration (z-lab) is flat and counts a tapped layer by the one
before it; the speculators format nests the layers' configuration and counts as EAGLE does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Qwen3Config

from specproof.drafters import checkpoint as files
from specproof.drafters.dflash.head import DFlashConfig, DFlashHead
from specproof.errors import SpecproofError

_KIND = "a DFlash"
_LAYER = (
    *("attention_bias", "head_dim", "hidden_act", "hidden_size", "intermediate_size", "max_position_embeddings"),
    *("num_attention_heads", "num_hidden_layers", "num_key_value_heads", "rms_norm_eps", "vocab_size"),
)
_ROTATION = ("rope_parameters", "rope_theta", "rope_scaling")
# What newer heads add, with the values that change nothing.
_PLAIN: dict[str, Any] = {
    "input_embedding_scale": 1.0,
    "output_multiplier": 1.0,
    "final_logit_softcapping": None,
    "projector_type": "dflash",
    "sample_from_anchor": False,
    "shift_label": False,
    "attention_mode": "gqa",
    "causal": False,
    "is_causal": False,
}


def read_dflash_config(folder: Path) -> DFlashConfig:
    """The head's configuration.

    Raises:
        SpecproofError: there is none, or it is no DFlash head that can be run.
    """
    values = files.read_values(folder, _KIND)
    kind = values.get("speculators_model_type")
    if kind not in (None, "dflash"):
        raise SpecproofError(f"{folder} holds a speculator of type {kind!r}; drafter 'dflash' loads 'dflash'")
    own = values | (values.get("dflash_config") or {})
    taps = own.get("aux_hidden_state_layer_ids") if kind else own.get("target_layer_ids")
    for name, found in (("block_size", own.get("block_size")), ("mask_token_id", own.get("mask_token_id")),
                        ("layers of the target", taps)):  # fmt: skip
        if found is None:
            raise SpecproofError(f"{folder} is not of a DFlash head (no {name}); give the head's folder")
    nested = values.get("transformer_layer_config", {}) if kind else values
    _refuse_variants(own | nested, folder)
    given = {name: nested[name] for name in (*_LAYER, *_ROTATION) if nested.get(name) is not None}
    given.setdefault("head_dim", given.get("hidden_size", 0) // max(1, given.get("num_attention_heads", 1)))
    layer = Qwen3Config(**given)
    block, mask = int(own["block_size"]), int(own["mask_token_id"])
    if block < 2 or not 0 <= mask < layer.vocab_size:
        raise SpecproofError(
            f"{folder}: a block of {block} tokens with mask token {mask} is not allowed; give at least 2, and one "
            f"of 0 to {layer.vocab_size - 1}"
        )
    target, architectures = files.verifier_of(values)
    return DFlashConfig(
        layer=layer,
        draft_vocabulary=int(own.get("draft_vocab_size") or layer.vocab_size),
        target_width=int(own.get("target_hidden_size") or layer.hidden_size),
        taps=tuple(int(tap) + (0 if kind else 1) for tap in taps or ()),
        block=block,
        mask=mask,
        target=target,
        architectures=architectures,
        provenance=values.get("specproof") or {},
    )


def load_dflash(folder: Path, embedding: Tensor, output: Tensor) -> DFlashHead:
    """A head in evaluation mode, in the embedding's dtype and on its device.

    Args:
        folder: of the checkpoint.
        embedding, output: the target's, [V, width] both; shared where the checkpoint has none of its own.

    Raises:
        SpecproofError: not a checkpoint that can be loaded, or not for a target with these.
    """
    config = read_dflash_config(folder)
    weights = files.read_weights(folder, _name)
    size = (config.layer.vocab_size, config.layer.hidden_size)
    for name, shared in (("embed_tokens.weight", embedding), ("lm_head.weight", output)):
        if name not in weights and tuple(shared.shape) != size:
            raise SpecproofError(
                f"{folder}: the head needs the target's {name} to have {size[0]} tokens and width {size[1]}, it "
                f"is {tuple(shared.shape)}; give the head of this target"
            )
    files.add_vocabulary(weights, config.draft_vocabulary, config.layer.vocab_size, folder)
    weights.setdefault("embed_tokens.weight", embedding)
    if config.draft_vocabulary == config.layer.vocab_size:
        weights.setdefault("lm_head.weight", output)
    with torch.device("meta"):
        head = DFlashHead(config)
    files.fill(head, weights, embedding, folder, _KIND)
    return head


def save_dflash(head: DFlashHead, folder: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write a head in the speculators format, without what is the target's."""
    config = head.config
    layer = config.layer.to_dict()
    whole = config.draft_vocabulary == config.layer.vocab_size
    document = {
        "architectures": ["DFlashSpeculator"],
        **files.about("dflash", config.block - 1, config.target, config.architectures),
        "draft_vocab_size": config.draft_vocabulary,
        "target_hidden_size": config.target_width,
        "block_size": config.block,
        "mask_token_id": config.mask,
        "aux_hidden_state_layer_ids": list(config.taps),
        "transformer_layer_config": {"model_type": "qwen3", "rope_theta": layer["rope_parameters"]["rope_theta"]}
        | {name: layer[name] for name in (*_LAYER, "rope_parameters")},
        "specproof": dict(config.provenance),
    }
    shared = ("embed_tokens.weight", "lm_head.weight") if whole else ("embed_tokens.weight",)
    weights = {name: value for name, value in head.state_dict().items() if name not in shared}
    files.write(folder, weights, document, dtype)


def _refuse_variants(values: Mapping[str, Any], folder: Path) -> None:
    """Raise for what this head does not do; nothing that changes its rows is ignored."""
    for name, plain in _PLAIN.items():
        if values.get(name, plain) not in (plain, None):
            raise SpecproofError(
                f"{folder}: a DFlash head with {name}={values[name]!r} cannot be run; give one with {plain!r}"
            )
    kinds = set(values.get("layer_types") or ()) - {"full_attention"}
    if kinds:
        raise SpecproofError(
            f"{folder}: a DFlash head with {', '.join(sorted(kinds))} cannot be run; give one with full attention"
        )


def _name(name: str) -> str | None:
    """None for the target's weights, which some checkpoints carry along, and for tables that are computed."""
    return None if name.startswith(("verifier_norm.", "verifier_lm_head.", "rotary_emb.")) else name
