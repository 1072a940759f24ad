"""The q-contract: a drafter's tokens are drawn from the rows that it returns, exactly where that can be summed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from specproof.audit.drafter.draws import Context
from specproof.audit.drafter.exact import enumerate_drafts
from specproof.audit.drafter.result import DrafterResult, Place
from specproof.audit.drafter.sampled import sample_drafts
from specproof.audit.engine_suite import DRAFTERS, VOCABULARY
from specproof.backends.hf import HFBackend
from specproof.errors import SpecproofError
from specproof.testing.tiny import tiny_model
from specproof.types import Backend, Drafter, SamplingParams

# Small drafts, so that all of them can be enumerated; in double precision, and in a real model's.
EXACT, ROUNDED = 1e-9, 1e-4
BUDGET = 3
FULL, FILTERED = SamplingParams(), SamplingParams(temperature=0.8, top_k=2)
_TEXTS = ((1, 0, 1, 2, 1, 0, 1), (3, 1))


class Where(NamedTuple):
    """A target with a drafter for it.

    Attributes:
        name: in words.
        target, drafter: as the engine would use them.
        enumerated, sampled: contexts.
        draws: after each sampled context.
        tolerance: total variation that is rounding.
    """

    name: str
    target: Backend
    drafter: Drafter
    enumerated: Sequence[Context]
    sampled: Sequence[Context]
    draws: int
    tolerance: float


def tiny_place(name: str, make: Callable[[Backend], Drafter] | None = None) -> Where:
    """A drafter on a tiny model in double precision; `make` builds one that is not of the suite."""
    target: Backend = HFBackend(tiny_model("llama", VOCABULARY, seed=0))
    drafter = DRAFTERS[name]("llama") if make is None else make(target)
    # An EAGLE head reads what its own target keeps.
    target = getattr(drafter, "target", None) or target
    contexts = [Context(text, params) for text in _TEXTS for params in (FULL, FILTERED)]
    return Where("a tiny model", target, drafter, contexts, contexts[::2], 2000, EXACT)


def real_place(name: str, target: Backend, drafter: Drafter, prompts: Sequence[Sequence[int]]) -> Where:
    """A drafter on a loaded model: enumerated under top-k 2, sampled with the whole vocabulary."""
    contexts = [tuple(prompt) for prompt in prompts]
    enumerated = [Context(text, FILTERED) for text in contexts]
    return Where(name, target, drafter, enumerated, [Context(text, FULL) for text in contexts[:1]], 512, ROUNDED)


def audit_drafter(
    name: str,
    places: Sequence[Where],
    *,
    alpha: float = 1e-3,
    announce: Callable[[str], None] | None = None,
    replay: str = "",
) -> DrafterResult:
    """Audit a drafter on one or more targets.

    Args:
        name: of the drafter, for the report.
        places: where it is run.
        alpha: a drafter that keeps its contract is called biased at most this often.
        announce: told how it goes.
        replay: command for the report.
    """
    tell = announce or (lambda _: None)
    found = []
    for where in places:
        target, drafter = where.target, where.drafter
        exact = tuple(enumerate_drafts(target, drafter, context, BUDGET) for context in where.enumerated)
        tell(f"{where.name}: {sum(each.drafts for each in exact)} drafts enumerated")
        sampled = None
        if drafter.drawn != "point" and not any(each.fault for each in exact):
            sizes = (where.draws, BUDGET)
            sampled = sample_drafts(target, drafter, where.sampled, sizes, alpha / len(places))
            tell(f"{where.name}: {sampled.draws} drafts sampled")
        found.append(Place(where.name, exact, sampled, where.tolerance))
    plan = {
        "drafter": name,
        "alpha": alpha,
        "budget": BUDGET,
        "places": [
            {"name": w.name, "enumerated": repr(w.enumerated), "sampled": repr(w.sampled), "draws": w.draws}
            for w in places
        ],
    }
    return DrafterResult(name, tuple(found), alpha, plan, replay)


def built(make: Callable[..., Any], model: Backend) -> Drafter:
    """A user's drafter: called with the model that drafts (or the target) if it takes an argument, else without.

    Raises:
        SpecproofError: it needs more, or what it makes is no drafter.
    """
    needed = [
        parameter
        for parameter in inspect.signature(make).parameters.values()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ]
    name = getattr(make, "__name__", "drafter")
    if len(needed) > 1:
        words = ", ".join(parameter.name for parameter in needed)
        raise SpecproofError(f"{name} needs {words}: give a class or function that takes a backend, or nothing")
    made = make(model) if needed else make()
    for part in ("draft", "observe", "free", "drawn", "chains"):
        if not hasattr(made, part):
            raise SpecproofError(f"{name} makes no drafter: it has no {part!r} (see specproof.types.Drafter)")
    drafter: Drafter = made
    return drafter
