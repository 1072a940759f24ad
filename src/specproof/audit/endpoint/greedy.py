"""Temperature 0: is each token the likeliest, a near-tie, or wrong; and do texts repeat at all?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from specproof.audit.endpoint.drift import Drift
from specproof.audit.endpoint.units import Units
from specproof.audit.endpoint.wire import Row
from specproof.audit.white.emission import Floats
from specproof.audit.white.near_tie import NearTies, near_ties

# Rounding of servers in bfloat16 moves logits by less; what moves them further is no rounding.
LARGEST_SPREAD = 0.05


@dataclass
class Gaps:
    """Of the tokens of an arm: how far each was from the likeliest, where anybody tells.

    Attributes:
        gaps, runners_up: as in `near_ties`.
    """

    gaps: list[Floats] = field(default_factory=list)
    runners_up: list[Floats] = field(default_factory=list)

    def add(self, gaps: Floats, runners_up: Floats) -> None:
        """Take in those of a text."""
        self.gaps.append(gaps)
        self.runners_up.append(runners_up)

    def judged(self, spread: float) -> NearTies | None:
        """The rule of near-ties; None if nothing was told."""
        if not self.gaps:
            return None
        return near_ties(np.concatenate(self.gaps), np.concatenate(self.runners_up), min(spread, LARGEST_SPREAD))


def own_gaps(rows: Sequence[Row]) -> tuple[Floats, Floats]:
    """[n] by the law reported for each token: the likeliest's logarithm less the token's, and the runner-up's."""
    top = np.array([row.top[0][1] for row in rows])
    own = np.array([np.nan if row.own is None else row.own for row in rows])
    second = np.array([row.top[1][1] for row in rows])
    return np.maximum(np.nan_to_num(top - own, nan=np.inf), 0), top - second


def parting_gap(drift: Drift, prompt: int, tokens: Sequence[str]) -> tuple[float, float] | None:
    """Gap and runner-up where a text leaves those without speculation, by the law told there.

    None if it does not leave them.
    """
    for at, token in enumerate(tokens):
        row = drift.row(prompt, tokens[:at])
        if row is None:
            return None
        told = dict(row.top)
        likeliest = row.top[0][1]
        if token not in told:
            return float("inf"), likeliest - row.top[1][1]
        if drift.row(prompt, tokens[: at + 1]) is None and at + 1 < len(tokens):
            return max(0.0, likeliest - told[token]), likeliest - row.top[1][1]
    return None


@dataclass
class Repeats:
    """Texts at temperature 0, of each prompt and arm.

    Attributes:
        off: the different texts of each prompt without speculation.
        compared: texts with speculation that there was something to compare with.
        equal: those of them that are among the texts without.
    """

    off: dict[int, dict[Units, int]] = field(default_factory=dict)
    compared: int = 0
    equal: int = 0

    def learn(self, prompt: int, text: Units) -> None:
        """A text without speculation."""
        texts = self.off.setdefault(prompt, {})
        texts[text] = texts.get(text, 0) + 1

    def compare(self, prompt: int, text: Units) -> None:
        """A text with speculation."""
        if prompt in self.off:
            self.compared += 1
            self.equal += text in self.off[prompt]

    @property
    def unsteady(self) -> int:
        """Prompts whose texts without speculation differ among themselves."""
        return sum(len(texts) > 1 for texts in self.off.values())

    @property
    def prompts(self) -> int:
        """Prompts that were asked twice or more without speculation."""
        return sum(sum(texts.values()) > 1 for texts in self.off.values())
