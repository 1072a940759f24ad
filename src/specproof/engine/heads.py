"""Trained heads: those that come with the package, and those in a folder or on the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specproof.drafters.dflash.checkpoint import load_dflash
from specproof.drafters.eagle.checkpoint import load_head
from specproof.drafters.medusa.checkpoint import load_medusa
from specproof.drafters.reduced import DraftVocabulary
from specproof.engine.default_model import HUB_NAME
from specproof.errors import SpecproofError

# Folder below this package's `heads`, by the name of the target.
_SHIPPED = {"default": "smollm2-135m-instruct", HUB_NAME: "smollm2-135m-instruct"}


def shipped_head(model: str) -> Path | None:
    """Folder of the head that comes with the package for a model, if one does."""
    if model not in _SHIPPED:
        return None
    folder = Path(__file__).parents[1] / "heads" / _SHIPPED[model]
    return folder if (folder / "config.json").is_file() else None


def default_drafter(model: str) -> str:
    """What to draft with unless told: "hybrid" if a head comes with the package for this model, else "ngram"."""
    return "ngram" if shipped_head(model) is None else "hybrid"


def load_trained_head(
    target: Any, model: str, name: str | None = None, drafter: str = "eagle3"
) -> DraftVocabulary:
    """The head for a transformers model.

    Args:
        target: the model.
        model: its name.
        name: folder of the head, or its name on the hub; the one that comes with the package if not given.
        drafter: one of HEADED.
    """
    eagle = drafter in ("eagle3", "hybrid")
    folder = shipped_head(model) if eagle else None
    if name is not None:
        folder = _folder(name)
    if folder is None:
        named = "EAGLE-3" if eagle else drafter
        raise SpecproofError(
            f"no {named} head comes with the package for {model!r}: give one (--draft-model FOLDER)"
            + (", or train one (specproof train)" if drafter != "dflash" else "")
        )
    layers = int(target.config.num_hidden_layers)
    embedding = target.get_input_embeddings().weight.detach()
    output = target.get_output_embeddings().weight.detach()
    if drafter == "medusa":
        return load_medusa(folder, layers, output)
    return load_dflash(folder, embedding, output) if drafter == "dflash" else load_head(folder, layers, embedding)


def _folder(name: str) -> Path:
    folder = Path(name).expanduser()
    if folder.is_dir() or name.startswith((".", "/", "~")) or name.count("/") != 1:
        if not folder.is_dir():
            raise SpecproofError(f"no folder at {name!r}; give the folder of the head, or its hub name")
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=["config.json", "*.safetensors"]))
    except (HfHubHTTPError, RepositoryNotFoundError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise SpecproofError(f"cannot fetch the head {name!r}: {reason} (give a folder or a hub name)") from error
