"""Bets that two arms have different laws: an e-process that may be looked at after every round.

At a place with a and b new texts of the two arms, and guesses f and g of their laws made from earlier rounds
alone, the product of f / mix over the a texts and g / mix over the b texts, with mix = (a f + b g) / (a + b), has
mean at most 1 if both have one law, whatever it is: by the inequality of means (Turner, Ly and Grünwald, arXiv
2106.02693). Rounds are played from the first unit to the last, so that who comes to a place is known before its
texts go on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from specproof.audit.endpoint.units import Units
from specproof.audit.white.emission import Floats

# How many imagined texts hold the guess for an arm at what both arms do together.
STRENGTHS = (8.0, 64.0, 512.0)


class _Seen(NamedTuple):
    """What went on from a place so far, with speculation and without."""

    on: Counter[str]
    off: Counter[str]


class Wager:
    """The capital.

    Attributes:
        log_e, highest: its logarithm now, and at its highest after any round.
    """

    def __init__(self) -> None:
        self.log_e = self.highest = 0.0
        self._seen: dict[tuple[int, Units], _Seen] = defaultdict(lambda: _Seen(Counter(), Counter()))
        self._logs = np.zeros(len(STRENGTHS))

    def play(self, prompt: int, on: Sequence[Units], off: Sequence[Units]) -> None:
        """Bet on a round's texts of a prompt."""
        level: dict[Units, tuple[list[Units], list[Units]]] = {(): (list(on), list(off))}
        while level:
            further: dict[Units, tuple[list[Units], list[Units]]] = {}
            for past, arms in level.items():
                following = [Counter(text[len(past)] for text in texts) for texts in arms]
                seen = self._seen[prompt, past]
                if all(following):
                    self._logs += _increments(seen, following[0], following[1])
                seen.on.update(following[0])
                seen.off.update(following[1])
                for at, texts in enumerate(arms):
                    for text in texts:
                        if len(text) > len(past) + 1:
                            further.setdefault(text[: len(past) + 1], ([], []))[at].append(text)
            level = further

    def settle(self) -> None:
        """A round is complete, of all prompts."""
        self.log_e = float(logsumexp(self._logs) - np.log(len(STRENGTHS)))
        self.highest = max(self.highest, self.log_e)

    @property
    def pvalue(self) -> float:
        """Valid whenever one looks."""
        return float(np.exp(-self.highest))


def _increments(seen: _Seen, on: Counter[str], off: Counter[str]) -> Floats:
    """[strengths] logarithm of the e-value of what came now, from guesses by what came before."""
    if not seen.on or not seen.off:
        return np.zeros(len(STRENGTHS))
    total = seen.on.total() + seen.off.total()
    numbers = {unit: at for at, unit in enumerate(seen.on | seen.off)}
    # The last one stands for all units that never came.
    known = np.zeros((2, len(numbers) + 1))
    new = np.zeros((2, len(numbers) + 1))
    for arm, (before, now) in enumerate(((seen.on, on), (seen.off, off))):
        for unit, count in before.items():
            known[arm, numbers[unit]] = count
        for unit, count in now.items():
            new[arm, numbers.get(unit, len(numbers))] += count
    together = (known.sum(0) + np.append(np.zeros(len(numbers)), 1.0)) / (total + 1)
    sizes = new.sum(1)
    found = []
    for strength in STRENGTHS:
        guesses = (known + strength * together) / (known.sum(1, keepdims=True) + strength)
        mix = sizes @ guesses / sizes.sum()
        found.append(float((new * np.log(guesses / mix)).sum()))
    return np.array(found)
