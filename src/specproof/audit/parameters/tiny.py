"""Our engine's law under every setting, exactly: all texts of a tiny model, against plain decoding's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from specproof.audit.engine_exact import engine_law
from specproof.audit.engine_suite import END, PROMPT, VOCABULARY, build_engine
from specproof.audit.parameters.compared import Compared
from specproof.audit.parameters.lattice import VALUES, covering, params_of, shown
from specproof.audit.parameters.plain import distance, plain_law, remembered
from specproof.audit.report import TOLERANCE
from specproof.engine.engine import Engine
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.types import SamplingParams

# One kind of draft each: looked up, drawn, a tree.
DRAFTS = (("ngram", "walk"), ("model", "block"), ("tree-point", "walk"))


def request(values: Mapping[str, Any], drafter: str, length: int = 3) -> SamplingParams:
    """Trees are two levels deep only where five tokens are left; two tokens a row keep their paths countable."""
    if not drafter.startswith("tree"):
        return params_of(values, length)
    return params_of({**values, "top_k": 2}, 5)


def compare_tiny(
    settings: Sequence[Mapping[str, Any]] | None = None,
    plant: Callable[[Engine], Engine] = lambda engine: engine,
    drafts: Sequence[tuple[str, str]] = DRAFTS,
) -> Iterator[Compared]:
    """Sum the engine's law under every setting and kind of draft.

    Args:
        settings: parameters by name; by default every pair of values occurs in some.
        plant: changes the engine, for faults.
        drafts: names of drafters with the rule of each, see `engine_suite.DRAFTERS`.
    """
    logits = remembered(partial(recomputed_logits, tiny_model("llama", VOCABULARY, seed=0)))
    for values in covering(VALUES) if settings is None else settings:
        for drafter, rule in drafts:
            engine = build_engine(drafter, rule)
            assert engine is not None, f"rule {rule} does not take what {drafter} drafts"
            params = request(values, drafter)
            expected = plain_law(logits, list(PROMPT), params, (END,))
            found, _, rounds = engine_law(plant(engine), list(PROMPT), replace(params))
            support = sum((found.get(text, 0) > 0) != (expected.get(text, 0) > 0) for text in {*found, *expected})
            yield Compared(
                setting=shown(values),
                where=f"all texts of a tiny model, drafter {drafter}, rule {rule}",
                rows=len(expected),
                drafted=len(expected) if rounds else 0,
                tv=distance(found, expected),
                tolerance=TOLERANCE,
                support=support,
            )
