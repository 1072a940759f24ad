"""The shape of drafts, by name or from a measurement: a short run tells how often which child is accepted."""

from __future__ import annotations

from collections.abc import Callable
from math import floor
from typing import Any

from specproof.drafters.shapes.named import Shape
from specproof.engine.engine import Engine
from specproof.engine.stats import Statistics
from specproof.tree import Tree
from specproof.types import Backend, Drafter, SamplingParams

# Children of the root and of each of its children while acceptance is measured.
_WIDE = (4, 3)
_TOKENS = 48
_PROMPTS = (
    "Explain how a bicycle stays upright.",
    "Write a Python function that counts the words of a text.",
    "Give me a short recipe for a vegetable soup.",
    "Tell the beginning of a story about a lost key.",
)
Make = Callable[[Shape], Drafter]


def measured_shape(target: Backend, make: Make, tokenizer: Any, depth: int | None = None) -> str:
    """The name of the best static shape for a drafter: "sequoia:" and its acceptance by rank, rounded down.

    Measured over a few fixed prompts at temperature 1 with fixed seeds, so it is always the same for a model.

    Args:
        target, tokenizer: of the engine.
        make: the drafter in a given shape.
        depth: most in a row, if the drafter has a limit.
    """
    wide = Tree.levels(_WIDE[:depth])
    engine = Engine(
        target, make(Shape(wide, "without_replacement")), tokenizer=tokenizer, budget=len(wide), adaptive=False
    )
    engine.generate(_PROMPTS, SamplingParams(temperature=1.0, max_tokens=_TOKENS, seed=0, ignore_eos=True))
    return "sequoia:" + ",".join(f"{share:.3f}" for share in acceptance(engine.stats))


def acceptance(stats: Statistics) -> list[float]:
    """How often the first, second, … child was accepted, for `sequoia`: in thousandths, with a sum of at most 1.

    Ranks that were offered at different places may add up to more than 1; they are then scaled down.
    """
    shares = list(stats.acceptance_by_rank.values()) or [0.0]
    return [floor(1000 * share / max(1.0, sum(shares))) / 1000 for share in shares]
