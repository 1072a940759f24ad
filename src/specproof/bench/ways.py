"""The ways of decoding that are compared: one model, loaded once, with every drafter that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specproof.backends.hf import HFBackend
from specproof.drafters import DRAFTERS, HEADED, NODES, choose_drafter, usual_shape
from specproof.drafters.shapes.named import named_shape
from specproof.engine.engine import Engine
from specproof.engine.heads import load_trained_head, shipped_head
from specproof.engine.loading import end_tokens, load_model, load_tokenizer
from specproof.engine.vocabulary import in_target_tokens
from specproof.errors import SpecproofError, unknown
from specproof.types import Backend

BASE = "none"
# Drafters that any model has: no weights but its own.
WITHOUT_WEIGHTS = ("ngram", "suffix", "early_exit")


@dataclass(frozen=True)
class Way:
    """A way of decoding.

    Attributes:
        label: as it was asked for; "none" is plain decoding.
        make: a new engine, which has learnt nothing about this drafter yet; its argument says whether it drafts as
            far as it pays, or at full length in every step.
        chains: whether its drafts are chains.
    """

    label: str
    make: Callable[[bool], Engine]
    chains: bool = True


@dataclass(frozen=True)
class Loaded:
    """A model and its ways, the plain one first.

    Attributes:
        model: of transformers.
        tokenizer: the model's.
        ways: at least the plain one.
        notes: default drafters that this model does not have, and why.
    """

    model: Any
    tokenizer: Any
    ways: tuple[Way, ...]
    notes: tuple[str, ...] = ()

    def fresh_target(self) -> Backend:
        """A backend for the model that has run nothing yet."""
        return HFBackend(self.model)


def default_drafters(model: str) -> list[str]:
    """All that need no weights, and those with the head that comes with the package for this model, if any."""
    return [*WITHOUT_WEIGHTS, *(["eagle3", "hybrid"] if shipped_head(model) is not None else [])]


def load_ways(
    model: str,
    drafters: Sequence[str] | None = None,
    *,
    dtype: str = "float32",
    device: str = "cpu",
) -> Loaded:
    """Load a model and what drafts for it.

    Args:
        model: "default", a folder, or a name on the hub.
        drafters: NAME, NAME=FOLDER, NAME@SHAPE or NAME=FOLDER@SHAPE each, with the folder or name of a draft model
            or head, and a shape's name (see `named_shape`); `default_drafters` if not given, without those that
            this model cannot have.
        dtype, device: of all models.
    """
    asked = default_drafters(model) if drafters is None else _labels(drafters)
    loaded, tokenizer = load_model(model, dtype, device), load_tokenizer(model)
    plain, eos = HFBackend(loaded), end_tokens(loaded, tokenizer)

    def way(label: str) -> Way:
        named, _, shaped = label.partition("@")
        name, _, place = named.partition("=")
        target, head, backend = plain, None, None
        if name in HEADED:
            head = load_trained_head(loaded, model, place or None, name)
            target = HFBackend(loaded, taps=head.taps)
        elif name == "model":
            if not place:
                raise SpecproofError("drafter 'model' needs a draft model: give --drafter model=FOLDER")
            own, draft = load_tokenizer(place), HFBackend(load_model(place, dtype, device))
            backend = in_target_tokens(draft, plain.vocabulary, tokenizer, own, "same")
        elif place:
            raise SpecproofError(f"drafter {label!r}: {name!r} takes no folder; give its name alone")
        shaped = shaped or usual_shape(name) or ""
        shape = named_shape(shaped, NODES, None if head is None else head.positions) if shaped else None
        # Made once right here: an error is due now, not after minutes of measuring.
        chains = choose_drafter(name, target, backend, head=head, shape=shape).chains

        def make(adaptive: bool) -> Engine:
            drafter = choose_drafter(name, target, backend, head=head, shape=shape)
            return Engine(target, drafter, eos=eos, adaptive=adaptive, trace=True)

        return Way(label, make, chains)

    ways, notes = [way(BASE)], []
    for label in asked:
        try:
            ways.append(way(label))
        except SpecproofError as error:
            if drafters is not None:
                raise
            notes.append(f"without {label}: {error}")
    return Loaded(loaded, tokenizer, tuple(ways), tuple(notes))


def _labels(drafters: Sequence[str]) -> list[str]:
    labels = [label for label in drafters if label != BASE]
    for label in labels:
        if (name := label.partition("@")[0].partition("=")[0]) not in DRAFTERS:
            raise unknown("drafter", name, DRAFTERS)
        if labels.count(label) > 1:
            raise SpecproofError(f"--drafter names {label!r} twice; give each one once")
    return labels
