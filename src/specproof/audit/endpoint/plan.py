"""What an audit of a server will do, written down before the first answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from specproof.audit.white.plan import Plan
from specproof.errors import SpecproofError

ON, OFF = "on", "off"
ARMS = (ON, OFF)
# Looks of the permutation test, as shares of all draws, and how its part of alpha is divided among them.
LOOKS = ((1 / 16, 0.25), (1 / 4, 0.25), (1.0, 0.5))
# Parts of alpha: bets where the target's rows are known, bets on two arms, permutations.
ROWS, WAGERS, PERMUTED = 0.4, 0.2, 0.4
# A generator of 32 bits is the least that servers take.
_SEEDS = 2**31


@dataclass(frozen=True)
class EndpointPlan:
    """The choices of a run.

    Attributes:
        alpha: a correct server is called biased at most this often.
        draws: most texts after each prompt, with speculation and as many without.
        length: tokens of a text.
        round: texts after each prompt between two looks at the evidence.
        detect: a total variation; a run that would have missed a fault of this size is inconclusive.
        seed: of texts, permutations and the noise inside tokens.
    """

    alpha: float = 1e-3
    draws: int = 1024
    length: int = 16
    round: int = 16
    detect: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        def need(ok: bool, name: str, allowed: str) -> None:
            if not ok:
                raise SpecproofError(f"{name}={getattr(self, name)!r} is not allowed: give {allowed}")

        need(0 < self.alpha < 1, "alpha", "a rate between 0 and 1, such as 0.001")
        need(self.round >= 1, "round", "a whole number >= 1")
        need(self.draws >= 2, "draws", "2 texts a prompt or more")
        need(1 <= self.length <= 512, "length", "1 to 512 tokens a text")
        need(0 < self.detect < 1, "detect", "a total variation between 0 and 1")
        need(0 <= self.seed < 2**64, "seed", "a whole number in [0, 2**64)")

    @property
    def rounds(self) -> int:
        """How many rounds there are at most; the last one may be shorter."""
        return -(-self.draws // self.round)

    def after(self, number: int) -> int:
        """Texts a prompt after this many rounds."""
        return min(self.draws, number * self.round)

    @cached_property
    def looks(self) -> dict[int, float]:
        """By round after which the permutation test looks: its level there."""
        levels: dict[int, float] = {}
        for share, part in LOOKS:
            at = min(self.rounds, -(-round(share * self.draws) // self.round))
            levels[at] = levels.get(at, 0.0) + part * PERMUTED * self.alpha
        return levels

    @property
    def bets(self) -> Plan:
        """The part of alpha that bets on known rows have, as their own plan."""
        return Plan(self.alpha * ROWS, length=self.length, detect=self.detect, seed=self.seed, draws=0)

    @property
    def wager(self) -> float:
        """Logarithm of the capital at which bets on two arms convict."""
        return float(-np.log(self.alpha * WAGERS))

    def seeds(self, arm: str, count: int) -> list[int]:
        """The first seeds of an arm's texts; no two are equal."""
        rng = np.random.default_rng((self.seed, ARMS.index(arm), 1))
        return [int(seed) for seed in rng.choice(_SEEDS, count, replace=False)]

    def described(self, setting: dict[str, Any]) -> dict[str, Any]:
        """Everything that was fixed, for the hash."""
        levels = {str(at): level for at, level in self.looks.items()}
        return {"plan": asdict(self), "parts": [ROWS, WAGERS, PERMUTED], "looks": levels, "setting": setting}
