"""Speed of a wrong text is worth nothing: at temperature 0 every way has to write the plain text.

Forwards of different width round differently. Where the likeliest tokens are closer than that rounding, two texts
may part without any fault. So a text that parted is scored token by token after the text that really stands
before each, and each has to be the likeliest there, up to the rounding measured on this model in its dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from specproof.audit.white.forcing import Conditions, reference_for, score
from specproof.audit.white.ledger import measure
from specproof.audit.white.near_tie import NearTies, near_ties
from specproof.bench.measure import Run
from specproof.bench.ways import BASE
from specproof.types import Backend, SamplingParams, TokenSequence

# Texts that rounding is measured on.
_FOR_ROUNDING = 6


@dataclass(frozen=True)
class TextCheck:
    """A text at temperature 0 that is not the plain one.

    Attributes:
        way, prompt, turn: whose it is; prompts count from 0.
        agree: leading tokens that are equal.
        ties: how far its tokens are from the likeliest; None if there is no token to judge: one text goes on where
            the other ends.
    """

    way: str
    prompt: int
    turn: int
    agree: int
    ties: NearTies | None

    @property
    def ok(self) -> bool:
        """Rounding explains it."""
        return self.ties is not None and self.ties.ok

    def as_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        worst = (None, None) if self.ties is None else (self.ties.worst, self.ties.margin)
        return {
            "way": self.way,
            "prompt": self.prompt,
            "turn": self.turn,
            "agree": self.agree,
            "ok": self.ok,
            "worst_gap": worst[0],
            "margin": worst[1],
        }

    def __str__(self) -> str:
        where = f"{self.way}, prompt {self.prompt + 1}: parts from the plain text after {self.agree} tokens"
        if self.ties is None:
            return f"DIFFERENT: {where}, where one of the two ends"
        verdict = "NEAR-TIE" if self.ok else "DIFFERENT"
        gap = f"largest gap to the likeliest token {self.ties.worst:.2g}, margin {self.ties.margin:.2g}"
        return f"{verdict}: {where}; {gap}"


def parted_texts(
    runs: Sequence[Run], prompts: Sequence[Sequence[int]], fresh_target: Callable[[], Backend]
) -> list[TextCheck]:
    """Every text at temperature 0 that is not the plain one of the same prompt; the same parting counts once.

    Args:
        runs: all of them; those at other temperatures are not looked at.
        prompts: tokens, by number.
        fresh_target: makes a backend for the model that has run nothing yet.
    """
    greedy = [run for run in runs if run.place.temperature == 0]
    plain = {run.place.prompt: run.tokens for run in reversed(greedy) if run.place.way == BASE}
    parted: dict[tuple[str, int, tuple[int, ...]], Run] = {}
    for run in greedy:
        if run.tokens != plain[run.place.prompt]:
            parted.setdefault((run.place.way, run.place.prompt, run.tokens), run)
    if not parted:
        return []
    target = fresh_target()
    reference = reference_for(target)
    starts = {number: _start(prompts[number]) for number in plain}
    texts = [(starts[number], list(tokens)) for number, tokens in list(plain.items())[:_FOR_ROUNDING]]
    spread = measure(target, reference, texts).spread
    checks = []
    for (way, number, tokens), run in parted.items():
        expected = plain[number]
        agree = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(expected, tokens, strict=False)))
        ties = None
        if agree < min(len(expected), len(tokens)):
            logits = reference([*prompts[number], *tokens], len(prompts[number]))
            scored = score(starts[number], list(tokens), logits, Conditions(None, np.zeros(len(tokens)), 0.0))
            gaps, runners_up = (np.concatenate([getattr(part, name) for part in scored]) for name in _GAPS)
            ties = near_ties(gaps, runners_up, spread)
        checks.append(TextCheck(way, number, run.place.turn, agree, ties))
    return checks


_GAPS = ("gaps", "runners_up")


def _start(prompt: Sequence[int]) -> TokenSequence:
    return TokenSequence(list(prompt), len(prompt), SamplingParams(temperature=0), 0)
