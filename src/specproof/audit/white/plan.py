"""What an audit will do, written down before the first token: nothing in it can be chosen by its outcome."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from specproof.audit.answer import split_alpha
from specproof.audit.white.evidence import Mixture
from specproof.errors import SpecproofError

# The tests of a run, and their shares of alpha where there is a panel.
BETS, PANEL, STRATA, REPEATS = "bets on running text", "panel", "panel by place in the draft", "equal texts"
SHARES = {BETS: 0.5, PANEL: 0.3, STRATA: 0.1, REPEATS: 0.1}
# How prefixes are chosen, in words, for the plan.
CHOICE = "of each text without speculation, the place among its first 16 with most tokens that expect 5 draws"


@dataclass(frozen=True)
class Plan:
    """The choices of a run.

    Attributes:
        alpha: a correct engine is called biased at most this often.
        tokens: most tokens to audit.
        length: most tokens of one text.
        at_once: texts in the making at a time, which bounds the memory.
        detect: a total variation; a run that would have missed a known fault of this size is inconclusive.
        seed: of texts and of the noise inside tokens.
        prefixes, draws, depth: of the panel: how many prefixes are repeated, how often each, and tokens that are
            drawn after it. No draws, no panel. At temperature 0 there is none.
    """

    alpha: float = 1e-3
    tokens: int = 4096
    length: int = 64
    at_once: int = 8
    detect: float = 0.1
    seed: int = 0
    prefixes: int = 8
    draws: int = 128
    depth: int = 5

    def __post_init__(self) -> None:
        def need(ok: bool, name: str, allowed: str) -> None:
            if not ok:
                raise SpecproofError(f"{name}={getattr(self, name)!r} is not allowed: give {allowed}")

        need(0 < self.alpha < 1, "alpha", "a rate between 0 and 1, such as 0.001")
        need(self.tokens >= 1, "tokens", "a whole number >= 1")
        need(1 <= self.length <= 512, "length", "1 to 512 tokens a text: rows of a whole text are held at once")
        need(self.at_once >= 1, "at_once", "a whole number >= 1")
        need(0 < self.detect < 1, "detect", "a total variation between 0 and 1")
        need(0 <= self.seed < 2**64, "seed", "a whole number in [0, 2**64)")
        need(1 <= self.prefixes <= 256, "prefixes", "1 to 256")
        need(self.draws == 0 or self.draws >= 16, "draws", "16 or more after each prefix, or 0 for no panel")
        need(1 <= self.depth <= 16, "depth", "1 to 16 tokens after a prefix")

    @property
    def control(self) -> int:
        """Tokens that are audited with speculation off."""
        return max(self.length, self.tokens // 4)

    @property
    def levels(self) -> dict[str, float]:
        """The rate of false alarms of each test; together they are alpha."""
        return split_alpha(self.alpha, SHARES if self.draws else {BETS: 1.0})

    @property
    def barrier(self) -> float:
        """Logarithm of the capital that convicts."""
        return float(-np.log(self.levels[BETS]))

    def seeds(self, use: int, count: int) -> list[int]:
        """The first `count` seeds of texts for a use: 0 with speculation off, 1 with it; 2 and 3 of the panel."""
        return [int(state) for state in np.random.SeedSequence((self.seed, use)).generate_state(count, np.uint64)]

    def described(self, mixture: Mixture, setting: dict[str, Any]) -> dict[str, Any]:
        """Everything that was fixed: sizes, seeds, bets, weights, and what is audited."""
        tests = {"levels": self.levels, "chosen prefixes": CHOICE}
        return {"plan": asdict(self), "mixture": mixture.described(), "tests": tests, "setting": setting}


def digest(described: dict[str, Any]) -> str:
    """Hash of a described plan: 16 hexadecimal digits of SHA-256 over its JSON with sorted keys."""
    return sha256(json.dumps(described, sort_keys=True, default=str).encode()).hexdigest()[:16]
