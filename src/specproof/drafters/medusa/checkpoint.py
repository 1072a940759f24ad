"""Medusa checkpoints: the speculators format (read and written), vLLM's and the published layout (read).

The published layout (FasterDecoding/Medusa) names a weight by its places, "0.0.linear.weight"; vLLM's names blocks
and output rows. Heads may share one set of output rows, and may carry a list of the tokens that they can draft.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specproof.drafters import checkpoint as files
from specproof.drafters.medusa.head import MedusaConfig, MedusaHead
from specproof.errors import SpecproofError

_KIND = "a Medusa"
# Places of a weight in the published layout: head, part of the head, and what it is of a residual block.
_PUBLISHED = re.compile(r"(\d+)\.(\d+)\.(linear\.)?(weight|bias)")


def load_medusa(folder: Path, layers: int, output: Tensor) -> MedusaHead:
    """Heads in evaluation mode, in the dtype of the target's output rows and on their device.

    Args:
        folder: of the checkpoint.
        layers: number of the target's layers.
        output: the target's output rows [V, width]; used by heads that have none of their own.

    Raises:
        SpecproofError: not a checkpoint that can be loaded, or not for a target with these rows.
    """
    values = files.read_values(folder, _KIND)
    count, depth = _sizes(values, folder)
    weights = files.read_weights(folder, lambda name: _name(name, depth))
    _add_map(weights, len(output), folder)
    drafted = len(weights["d2t"]) if "d2t" in weights else len(output)
    _share_rows(weights, count, drafted, output)
    target, architectures = files.verifier_of(values)
    width = weights["blocks.0.layers.0.weight"].shape[1] if "blocks.0.layers.0.weight" in weights else 0
    if width != output.shape[1]:
        raise SpecproofError(
            f"{folder}: the Medusa heads read hidden states of width {width} and the target's have "
            f"{output.shape[1]}; give the heads of this target"
        )
    config = MedusaConfig(
        width=width,
        vocabulary=len(output),
        draft_vocabulary=drafted,
        taps=(layers,),
        heads=count,
        layers=depth,
        bias="blocks.0.layers.0.bias" in weights,
        target=target or values.get("base_model_name_or_path"),
        architectures=architectures,
        provenance=values.get("specproof") or {},
    )
    files.add_vocabulary(weights, drafted, len(output), folder)
    with torch.device("meta"):
        head = MedusaHead(config)
    files.fill(head, weights, output, folder, _KIND)
    return head


def save_medusa(head: MedusaHead, folder: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write heads in the speculators format."""
    config = head.config
    document = {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        **files.about("medusa", config.heads, config.target, config.architectures),
        "num_heads": config.heads,
        "num_hidden_layers": config.layers,
        "hidden_size": config.width,
        "medusa_hidden_size": config.width,
        "vocab_size": config.vocabulary,
        "medusa_vocab_size": config.vocabulary,
        "truncated_vocab_size": config.draft_vocabulary,
        "original_lm_head": False,
        "medusa_fc_bias": config.bias,
        "specproof": dict(config.provenance),
    }
    # The same map twice: as vLLM reads it, and as offsets.
    weights = head.state_dict()
    if config.draft_vocabulary < config.vocabulary:
        weights["token_map"] = head.drafted
    files.write(folder, weights, document, dtype)


def _sizes(values: dict[str, Any], folder: Path) -> tuple[int, int]:
    """Number of heads, and of residual blocks in each."""
    kind = values.get("speculators_model_type")
    if kind not in (None, "medusa"):
        raise SpecproofError(f"{folder} holds a speculator of type {kind!r}; drafter 'medusa' loads 'medusa'")
    if "medusa_num_heads" in values:
        count, depth = values["medusa_num_heads"], values.get("medusa_num_layers", 1)
    elif "num_heads" in values:
        count, depth = values["num_heads"], values.get("num_hidden_layers", 1)
    else:
        raise SpecproofError(
            f"{folder} is not of Medusa heads (no medusa_num_heads, no num_heads); give the heads' folder"
        )
    if not (isinstance(count, int) and isinstance(depth, int) and count > 0 and depth > 0):
        raise SpecproofError(f"{folder}: {count} heads of {depth} blocks are none; give whole numbers >= 1")
    return count, depth


def _name(name: str, depth: int) -> str | None:
    """Our name of a weight; None for the target's own, which some checkpoints carry along."""
    name = re.sub(r"^medusa_heads?\.", "", name)
    if found := _PUBLISHED.fullmatch(name):
        head, part, block, what = found.groups()
        if block:
            return f"blocks.{head}.layers.{part}.{what}"
        return f"lm_heads.{head}.{what}" if int(part) == depth else name
    if name.startswith(("embed_tokens.", "verifier_", "model.")):
        return None
    return name


def _add_map(weights: dict[str, Tensor], vocabulary: int, folder: Path) -> None:
    """From a list of tokens to offsets; rows of the whole vocabulary are cut to the listed tokens."""
    tokens = weights.pop("token_map", None)
    if tokens is None:
        return
    tokens = tokens.long()
    if "d2t" in weights:
        if not torch.equal(tokens, torch.arange(len(tokens)) + weights["d2t"].long()):
            raise SpecproofError(f"{folder}: token_map and d2t do not name the same tokens; it is damaged")
        return
    order = tokens.argsort()
    weights["d2t"] = tokens[order] - torch.arange(len(tokens))
    for name, rows in weights.items():
        if name.startswith("lm_head"):
            weights[name] = rows[tokens[order] if len(rows) == vocabulary else order]


def _share_rows(weights: dict[str, Tensor], count: int, drafted: int, output: Tensor) -> None:
    """Heads without output rows of their own share the checkpoint's, or the target's."""
    shared = weights.pop("lm_head.weight", None)
    if "lm_heads.0.weight" in weights and any(f"lm_heads.{head}.weight" in weights for head in range(1, count)):
        return
    if shared is None:
        shared = weights.get("lm_heads.0.weight")
    if shared is None:
        tokens = torch.arange(drafted) + weights["d2t"].long() if "d2t" in weights else torch.arange(drafted)
        shared = output.cpu()[tokens]
    for head in range(count):
        weights[f"lm_heads.{head}.weight"] = shared
