"""Checkpoints of trained heads: a config.json and safetensors, read with checks and written whole. No pickles."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from specproof.errors import SpecproofError

WEIGHTS, CONFIG = "model.safetensors", "config.json"
_FORMAT = "0.9.0"  # of speculators, whose format this is


def read_values(folder: Path, kind: str) -> dict[str, Any]:
    """What a folder's config.json says; `kind` is the head's, for messages."""
    path = folder / CONFIG
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecproofError(f"cannot read {path}: {error}; give the folder of {kind} checkpoint") from error
    return values


def read_weights(folder: Path, rename: Callable[[str], str | None]) -> dict[str, Tensor]:
    """All tensors of a folder under the names that `rename` gives them; those without one are left out."""
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
            own = rename(name)
            if own is not None:
                weights[own] = value
    return weights


def add_vocabulary(weights: dict[str, Tensor], size: int, full: int, folder: Path) -> None:
    """Check the map from `size` draft tokens to `full` target tokens, and the mask that says the same."""
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


def fill(head: nn.Module, weights: Mapping[str, Tensor], like: Tensor, folder: Path, kind: str) -> None:
    """Give a head, made without memory, these weights in the dtype of `like` and on its device.

    Raises:
        SpecproofError: a weight is missing, has no place, or has another shape than the head's.
    """
    expected = {name: tuple(value.shape) for name, value in head.state_dict().items()}
    for name in sorted({*expected, *weights}):
        if name not in weights:
            raise SpecproofError(f"{folder}: weight {name} is missing; this is not the whole of {kind} checkpoint")
        if name not in expected:
            raise SpecproofError(f"{folder}: weight {name} has no place in {kind} head as its config.json has it")
        if tuple(weights[name].shape) != expected[name]:
            found = tuple(weights[name].shape)
            raise SpecproofError(
                f"{folder}: weight {name} is {found} and its config.json asks for {expected[name]}"
            )
    placed = {n: w.to(like.device, like.dtype if w.is_floating_point() else None) for n, w in weights.items()}
    head.load_state_dict(placed, assign=True)
    head.requires_grad_(False).eval()


def write(folder: Path, weights: Mapping[str, Tensor], document: Mapping[str, Any], dtype: torch.dtype) -> None:
    """The weights first and the configuration last, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = {
        name: (value.to(dtype) if value.is_floating_point() else value).contiguous().cpu()
        for name, value in weights.items()
    }
    scratch = folder / f".{WEIGHTS}.{os.getpid()}"
    save_file(stored, scratch, metadata={"format": "pt"})
    scratch.replace(folder / WEIGHTS)
    text = json.dumps({**document, "dtype": str(dtype).removeprefix("torch.")}, indent=2) + "\n"
    scratch = folder / f".{CONFIG}.{os.getpid()}"
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(folder / CONFIG)


def about(kind: str, length: int, target: str | None, architectures: tuple[str, ...]) -> dict[str, Any]:
    """What every configuration in the speculators format says: algorithm, tokens in a row, and for which model."""
    method = {"proposal_type": "greedy", "speculative_tokens": length}
    return {
        "speculators_model_type": kind,
        "speculators_version": _FORMAT,
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": [method | {"accept_tolerance": 0.0, "verifier_accept_k": 1}],
            "verifier": {"name_or_path": target, "architectures": list(architectures)},
        },
    }


def length_of(values: Mapping[str, Any], usual: int) -> int:
    """Tokens in a row that a configuration in the speculators format proposes."""
    own = values.get("speculators_config") or {}
    methods = own.get("proposal_methods") or [{}]
    named = [m for m in methods if m.get("proposal_type") == own.get("default_proposal_method")]
    return int((named or methods)[0].get("speculative_tokens") or usual)


def verifier_of(values: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """Name and classes of the model that a configuration in the speculators format is for."""
    verifier = (values.get("speculators_config") or {}).get("verifier") or {}
    return verifier.get("name_or_path"), tuple(verifier.get("architectures") or ())
