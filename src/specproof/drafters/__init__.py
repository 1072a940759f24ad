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
    from specproof.drafters.eagle.head import EagleHead

DRAFTERS: dict[str, str] = {
    "none": "specproof.drafters.none:NoDrafter",
    "ngram": "specproof.drafters.ngram:NgramDrafter",
    "suffix": "specproof.drafters.suffix:SuffixDrafter",
    "early_exit": "specproof.drafters.early_exit:EarlyExitDrafter",
    "model": "specproof.drafters.model:ModelDrafter",
    "eagle3": "specproof.drafters.eagle3:Eagle3Drafter",
}


def choose_drafter(
    name: str,
    target: Backend,
    backend: Backend | None = None,
    *,
    head: EagleHead | None = None,
    coupled: bool = False,
) -> Drafter:
    """The drafter of that name for a target.

    Args:
        name: a key of DRAFTERS.
        target: the model it drafts for; a draft model must have the same vocabulary (see `vocabulary`).
        backend: the draft model, which "model" needs and the others do not take.
        head: what "eagle3" drafts with; its target is built with the head's taps.
        coupled: whether a draft model, the target as one, or a head shares its noise with rule "coupling".
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
    if name == "eagle3":
        if head is None:
            raise SpecproofError("drafter 'eagle3' needs a trained head: give its folder (--draft-model FOLDER)")
        return make(head, target, coupled=coupled)
    if name == "early_exit":
        return make(target, coupled=coupled)
    if backend is None:
        return make()
    if backend.vocabulary != target.vocabulary:
        raise SpecproofError(
            f"the draft model has a vocabulary of {backend.vocabulary} tokens and the target one of "
            f"{target.vocabulary}; wrap it in drafters.vocabulary.SharedVocabulary"
        )
    return make(backend, coupled=coupled)
