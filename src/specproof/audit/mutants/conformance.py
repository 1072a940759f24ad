"""Conformance calls on parts with a fault, over tiny transformers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor

from specproof.audit.mutants.case import Conformance
from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.testing.conformance import check_backend, check_coins, check_drafter
from specproof.testing.tiny import tiny_model
from specproof.types import Backend

_VOCABULARY, _NODES = 5, 3
Alter = Callable[[HFBackend], Backend]


def drafter(kind: type[ModelDrafter], alter: Alter = lambda backend: backend) -> Conformance:
    """A drafter of this kind, its backend altered, against one without history."""

    def check() -> None:
        model = tiny_model("llama", _VOCABULARY, seed=1)
        target = HFBackend(tiny_model("llama", _VOCABULARY))
        check_drafter(lambda: kind(alter(HFBackend(model)), _NODES), target)

    return Conformance("drafter", check)


def backend(alter: Alter = lambda backend: backend) -> Conformance:
    """A backend, altered, against the same text prefilled afresh."""

    def check() -> None:
        check_backend(alter(HFBackend(tiny_model("llama", _VOCABULARY))))

    return Conformance("backend", check)


def coins(draw: Callable[[Tensor, Tensor], Tensor]) -> Conformance:
    """An inverse CDF at scripted coins."""
    return Conformance("noise", partial(check_coins, draw))
