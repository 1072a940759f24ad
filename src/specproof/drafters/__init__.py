"""Drafters: DRAFTERS, the one table, and how a name becomes one. Importing this table loads no torch.

A drafter returns tokens and the rows they were really drawn from, made together, so that no rule is ever
handed a soft row for an argmax token.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from specproof.errors import SpecproofError, unknown
from specproof.types import Backend, Drafter

if TYPE_CHECKING:
    from specproof.drafters.reduced import DraftVocabulary
    from specproof.drafters.shapes.named import Shape

DRAFTERS: dict[str, str] = {
    "none": "specproof.drafters.none:NoDrafter",
    "ngram": "specproof.drafters.ngram:NgramDrafter",
    "suffix": "specproof.drafters.suffix:SuffixDrafter",
    "replay": "specproof.drafters.replay:ReplayDrafter",
    "early_exit": "specproof.drafters.early_exit:EarlyExitDrafter",
    "model": "specproof.drafters.model:ModelDrafter",
    "eagle3": "specproof.drafters.eagle3:Eagle3Drafter",
    "medusa": "specproof.drafters.medusa.drafter:MedusaDrafter",
    "dflash": "specproof.drafters.dflash.drafter:DFlashDrafter",
    "hybrid": "specproof.drafters.hybrid:HybridDrafter",
}
NODES = 16  # most that a step drafts for a sequence, unless told otherwise
# Those that draft with a trained head, which reads the target's hidden states.
HEADED = ("eagle3", "medusa", "dflash", "hybrid")
# Those that look the text up and have a shape of their own.
_LOOKUPS = ("none", "ngram", "suffix", "replay")


def usual_shape(name: str, rule: str = "auto") -> str | None:
    """The shape that suits a drafter best, by name; None for its own chain, which every rule for chains takes.

    Measured on the default model (docs/log.md): at temperature 0 trees of the head's likeliest tokens beat
    chains, at temperature 1 trees of distinct draws beat both.
    """
    return "mixed:16" if name == "hybrid" and rule == "auto" else None


def choose_drafter(
    name: str,
    target: Backend,
    backend: Backend | None = None,
    *,
    head: DraftVocabulary | None = None,
    coupled: bool = False,
    shape: Shape | None = None,
    past: str | None = None,
) -> Drafter:
    """The drafter of that name for a target.

    Args:
        name: a key of DRAFTERS.
        target: the model it drafts for; a draft model must have the same vocabulary (see `vocabulary`).
        backend: the draft model, which "model" needs and the others do not take.
        head: what one of HEADED drafts with; its target is built with the head's taps.
        coupled: whether a draft model, the target as one, or a head shares its noise with rule "coupling".
        shape: of its drafts, for all that do not look the text up; a chain if not given.
        past: file of remembered rollouts, which "replay" needs.
    """
    if name not in DRAFTERS:
        raise unknown("drafter", name, DRAFTERS)
    module, _, kind = DRAFTERS[name].partition(":")
    make: Callable[..., Drafter] = getattr(import_module(module), kind)
    if (name == "model") != (backend is not None):
        raise SpecproofError(
            "drafter 'model' needs a draft model: give one (--draft-model FOLDER)"
            if backend is None
            else f"drafter {name!r} takes no draft model: use drafter 'model'"
        )
    if name in _LOOKUPS:
        if shape is not None:
            raise SpecproofError(f"drafter {name!r} takes no shape: what it finds in the text has its own")
        return make() if name != "replay" else _replay(past, target, coupled)
    options = {"coupled": coupled} if shape is None else {"coupled": coupled, **shape._asdict()}
    if name in HEADED:
        if head is None:
            raise SpecproofError(f"drafter {name!r} needs a trained head: give its folder (--draft-model FOLDER)")
        if name == "hybrid":
            other = choose_drafter("eagle3", target, head=head, coupled=coupled, shape=shape)
            return make(choose_drafter("ngram", target), other, target.vocabulary)
        return make(head, target, **options)
    if backend is None:
        return make(target, **options)
    if backend.vocabulary != target.vocabulary:
        raise SpecproofError(
            f"the draft model has a vocabulary of {backend.vocabulary} tokens and the target one of "
            f"{target.vocabulary}; wrap it in drafters.vocabulary.SharedVocabulary"
        )
    return make(backend, **options)


def _replay(past: str | None, target: Backend, coupled: bool) -> Drafter:
    if past is None:
        raise SpecproofError("drafter 'replay' needs remembered rollouts: give their file (--draft-model FILE)")
    from specproof.drafters.replay import ReplayDrafter

    return ReplayDrafter.load(past, target.vocabulary, coupled=coupled)
