"""Temperature 0 on a real model: speculative text equals plain text, or they part at a near-tie.

A forward over several positions may round differently from one over a single position. Where two logits are
closer than that rounding the texts can part without any fault; where they are not, something is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from specproof.drafters.none import empty_draft
from specproof.engine.engine import Engine
from specproof.types import SamplingParams, TokenSequence

# Logits in float32 differ by some 1e-4 between forwards of different width on models of this size.
NEAR_TIE = 1e-2


@dataclass(frozen=True)
class GreedyResult:
    """One prompt decoded plainly and speculatively.

    Attributes:
        prompt: its number.
        tokens: length of the speculative text.
        agree: leading tokens that are equal.
        gap: between the largest logit and the speculative token's where the texts part, in a plain forward; None
            if they are equal.
    """

    prompt: int
    tokens: int
    agree: int
    gap: float | None

    @property
    def ok(self) -> bool:
        """Equal, or parted at a near-tie."""
        return self.gap is None or self.gap < NEAR_TIE

    def __str__(self) -> str:
        if self.gap is None:
            return f"EQUAL: prompt {self.prompt}: {self.tokens} tokens"
        verdict = "NEAR-TIE" if self.ok else "DIFFERENT"
        return f"{verdict}: prompt {self.prompt}: parts after {self.agree} tokens, {self.gap:.2g} below the top"


def compare_greedy(engine: Engine, prompts: Sequence[list[int]], max_tokens: int) -> Iterator[GreedyResult]:
    """Decode each prompt at temperature 0 with and without the engine's drafter."""
    plain = Engine(engine.target, "none", eos=engine.eos)
    params = SamplingParams(temperature=0, max_tokens=max_tokens)
    for number, prompt in enumerate(prompts):
        expected = plain.generate([prompt], params)[0].tokens
        found = engine.generate([prompt], params)[0].tokens
        pairs = zip(expected, found, strict=False)
        agree = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        said = found[agree : agree + 1] or tuple(engine.eos)  # a text that is over said one of these
        gap = None if expected == found else _gap(engine, [*prompt, *expected[:agree]], said)
        yield GreedyResult(number, len(found), agree, gap)


def _gap(engine: Engine, tokens: list[int], said: Sequence[int]) -> float:
    sequence = TokenSequence(tokens, len(tokens), SamplingParams(), 0)
    logits = engine.target.forward([sequence], empty_draft(1)).logits[0, 0]
    engine.target.free([sequence])
    scores = logits.float()
    return float(scores.max() - scores[list(said)].max()) if said else math.inf
