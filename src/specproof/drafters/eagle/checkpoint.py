"""EAGLE-3 checkpoints: the speculators format (read and written) and the published layout (read).

The speculators format nests the layer's configuration and says for which model it is; vLLM serves it. Published
checkpoints (SafeAILab/EAGLE, sgl-project/SpecForge) are flat and call the layer "midlayer". Safetensors only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaConfig

from specproof.drafters.eagle.head import TAPS, EagleHead, HeadConfig, default_taps
from specproof.errors import SpecproofError

WEIGHTS, CONFIG = "model.safetensors", "config.json"
_FORMAT = "0.9.0"  # of speculators, whose format this is
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
    path = folder / CONFIG
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecproofError(f"cannot read {path}: {error}; give the folder of an EAGLE-3 checkpoint") from error
    kind = values.get("speculators_model_type")
    if kind not in (None, "eagle3"):
        raise SpecproofError(f"{folder} holds a speculator of type {kind!r}; only 'eagle3' can be loaded")
    if kind is None and "draft_vocab_size" not in values:
        raise SpecproofError(f"{path} is not of an EAGLE-3 head (no draft_vocab_size); give the head's folder")
    nested = values.get("transformer_layer_config", {}) if kind else values
    model_type, depth = nested.get("model_type", "llama"), nested.get("num_hidden_layers", 1)
    if model_type != "llama" or depth != 1:
        raise SpecproofError(
            f"{folder}: a head of {depth} {model_type} layers cannot be run; give one with one llama layer"
        )
    given = {name: value for name, value in nested.items() if name not in ("architectures", "auto_map", "dtype")}
    layer = LlamaConfig(**given | {"num_hidden_layers": 1})
    about = values.get("speculators_config") or {}
    verifier = about.get("verifier") or {}
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
        length=_length(about),
        target=verifier.get("name_or_path"),
        architectures=tuple(verifier.get("architectures") or ()),
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
    weights = _weights(folder)
    own = weights.get("embed_tokens.weight")
    if own is None and tuple(embedding.shape) != (config.layer.vocab_size, config.layer.hidden_size):
        raise SpecproofError(
            f"{folder}: the head needs an embedding of {config.layer.vocab_size} tokens and width "
            f"{config.layer.hidden_size}, the target's is {tuple(embedding.shape)}; give the head of this target"
        )
    with torch.device("meta"):
        head = EagleHead(config)
    weights["embed_tokens.weight"] = embedding if own is None else own
    _add_vocabulary(weights, config, folder)
    _compare({name: tuple(value.shape) for name, value in head.state_dict().items()}, weights, folder)
    place = embedding.device
    placed = {n: w.to(place, embedding.dtype if w.is_floating_point() else None) for n, w in weights.items()}
    head.load_state_dict(placed, assign=True)
    return head.requires_grad_(False).eval()


def save_head(head: EagleHead, folder: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write a head in the speculators format, without the embedding, which is the target's.

    The weights come first and the configuration last, each whole or not at all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: (value.to(dtype) if value.is_floating_point() else value).contiguous().cpu()
        for name, value in head.state_dict().items()
        if name != "embed_tokens.weight"
    }
    scratch = folder / f".{WEIGHTS}.{os.getpid()}"
    save_file(weights, scratch, metadata={"format": "pt"})
    scratch.replace(folder / WEIGHTS)
    text = json.dumps(_document(head.config, str(dtype).removeprefix("torch.")), indent=2) + "\n"
    scratch = folder / f".{CONFIG}.{os.getpid()}"
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(folder / CONFIG)


def _document(config: HeadConfig, dtype: str) -> dict[str, Any]:
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
    method = {"proposal_type": "greedy", "speculative_tokens": config.length}
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": _FORMAT,
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [method | {"accept_tolerance": 0.0, "verifier_accept_k": 1}],
            "verifier": {"name_or_path": config.target, "architectures": list(config.architectures)},
        },
        "draft_vocab_size": config.draft_vocabulary,
        "target_hidden_size": config.target_width,
        "eagle_aux_hidden_state_layer_ids": list(config.taps),
        "norm_before_residual": config.norm_before_residual,
        "norm_before_fc": config.norm_before_fc,
        "embed_requires_grad": False,
        "dtype": dtype,
        # Readers from before transformers 5 look for the base of the rotation outside its parameters.
        "transformer_layer_config": {"model_type": "llama", "rope_theta": layer["rope_parameters"]["rope_theta"]}
        | {name: layer[name] for name in names},
        "specproof": dict(config.provenance),
    }


def _length(about: Mapping[str, Any]) -> int:
    methods = about.get("proposal_methods") or [{}]
    named = [m for m in methods if m.get("proposal_type") == about.get("default_proposal_method")]
    return int((named or methods)[0].get("speculative_tokens") or HeadConfig.length)


def _weights(folder: Path) -> dict[str, Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        pickles = sorted([*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")])
        found = f"only {pickles[0].name}, a pickle, which can run code when it is loaded" if pickles else "none"
        raise SpecproofError(f"no safetensors in {folder} ({found}); convert the head to {WEIGHTS}")
    weights: dict[str, Tensor] = {}
    for file in files:
        try:
            loaded = load_file(file)
        except (SafetensorError, OSError) as error:
            raise SpecproofError(f"cannot read {file}: {error}; fetch or make the checkpoint again") from error
        for name, value in loaded.items():
            name = name.replace("midlayer.", "layers.0.")
            if not name.startswith(_IGNORED):
                weights[name] = value
    return weights


def _add_vocabulary(weights: dict[str, Tensor], config: HeadConfig, folder: Path) -> None:
    """Check the map from draft to target tokens, and the mask that says the same."""
    size, full = config.draft_vocabulary, config.layer.vocab_size
    if "d2t" not in weights:
        if size != full:
            raise SpecproofError(f"{folder}: no d2t for a draft vocabulary of {size} of {full} tokens")
        weights["d2t"] = torch.zeros(size, dtype=torch.long)
    tokens = torch.arange(len(weights["d2t"])) + weights["d2t"].long()
    weights["d2t"] = weights["d2t"].long()
    if tokens.unique().numel() != size or int(tokens.min()) < 0 or int(tokens.max()) >= full:
        raise SpecproofError(f"{folder}: d2t does not give {size} different tokens of 0 to {full - 1} (offsets)")
    mask = torch.zeros(full, dtype=torch.bool)
    mask[tokens] = True
    if "t2d" in weights and not torch.equal(weights["t2d"].bool(), mask):
        raise SpecproofError(f"{folder}: t2d and d2t do not name the same tokens; the checkpoint is damaged")
    weights["t2d"] = mask


def _compare(expected: Mapping[str, tuple[int, ...]], weights: Mapping[str, Tensor], folder: Path) -> None:
    for name in sorted({*expected, *weights}):
        if name not in weights:
            raise SpecproofError(f"{folder}: weight {name} is missing; this is no whole EAGLE-3 checkpoint")
        if name not in expected:
            raise SpecproofError(f"{folder}: weight {name} has no place in an EAGLE-3 head of one llama layer")
        if tuple(weights[name].shape) != expected[name]:
            found = tuple(weights[name].shape)
            raise SpecproofError(
                f"{folder}: weight {name} is {found} and its config.json asks for {expected[name]}"
            )
