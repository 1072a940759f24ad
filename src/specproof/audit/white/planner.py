"""How many tokens a fault needs, and the smallest one that a run would have caught; in closed form.

Under a fault, the logarithm of a bet grows by g a token on average, with standard deviation s. It reaches
ln(1/alpha) + ln(1/weight) with 95 % probability after the n that solves n g - 1.645 s sqrt(n) = that. Both are
exact sums over the rows that the audit saw; g falls with the square of a fault's size, so the smallest
total variation that n tokens show is that of the fault x sqrt(n95 / n).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2, norm

from specproof.audit.white.arms import Library, Temperature
from specproof.audit.white.emission import Emissions, Floats, quotient
from specproof.audit.white.evidence import Mixture
from specproof.audit.white.faults import EXPONENTS, FAULTS, Fault, distance, temperature_fault

POWER = 0.95
_SIGMAS = float(norm.ppf(POWER))
# The bet that sees a family which none does.
NOTHING = "nothing"
# A family that moves less than this on average does not act here.
ACTS = 1e-4
# The faults of every statement of power: the library, and temperatures on both sides.
FAMILIES: tuple[Fault, ...] = (*FAULTS, *map(temperature_fault, EXPONENTS))


@dataclass(frozen=True)
class Prediction:
    """What a fault would have meant for this audit.

    Attributes:
        fault: its name.
        tv: mean total variation of what comes out, over all emissions.
        n95: tokens after which the mixture convicts it with 95 % probability; infinite if no bet grows.
        bet: the bet that does.
        detectable: mean total variation of the smallest fault of this family that the tokens spent would show.
    """

    fault: str
    tv: float
    n95: float
    bet: str
    detectable: float


def n95(growth: float, variance: float, barrier: float) -> float:
    """Tokens until a bet with this growth and variance a token is past the barrier with 95 % probability."""
    if growth <= 0:
        return float("inf")
    wide = _SIGMAS * np.sqrt(variance)
    return float(((wide + np.sqrt(wide**2 + 4 * growth * barrier)) / (2 * growth)) ** 2)


@lru_cache(maxsize=256)
def noncentrality(freedom: int, level: float = 1e-3) -> float:
    """Shift of a chi-square statistic that its test at this level catches with 95 % power."""
    critical = chi2.isf(level, freedom)
    return float(brentq(lambda shift: ncx2.sf(critical, freedom, shift) - POWER, 1e-6, 10 * critical + 100))


def panel_n95(out: Floats, row: Floats, level: float = 1e-3) -> float:
    """Draws after one prefix until Pearson's test convicts a law [V] that is not the row [V]."""
    live = row > 0
    away = float((quotient((out - row) ** 2, row)[live]).sum())
    if out[~live].sum() > 0:
        return float(np.log(1 - POWER) / np.log1p(-out[~live].sum()))
    return noncentrality(int(live.sum()) - 1, level) / away if away > 0 else float("inf")


class _Bet(NamedTuple):
    """A bet that a family is looked for with: the law of its fault, at a share of the emissions."""

    name: str
    weight: float
    share: float


@dataclass
class _Sums:
    """Of one family: total variation, and growth and variance of each bet, added up over emissions."""

    fault: Fault
    bets: tuple[_Bet, ...]
    moments: Floats  # [2, bets]
    tv: float = 0.0


class Planner:
    """Adds up, over some of the emissions, what each family would have done there.

    Attributes:
        seen: how many emissions.

    Args:
        alpha: the rate of false alarms.
        mixture: the bets, with their weights.
        families: the faults to speak of.
    """

    def __init__(self, alpha: float, mixture: Mixture, families: Sequence[Fault] = FAMILIES) -> None:
        self.alpha = alpha
        self.seen = 0
        self._sums: dict[str, _Sums] = {}
        for fault in families:
            bets = tuple(_bets_on(fault, mixture))
            self._sums[fault.name] = _Sums(fault, bets, np.zeros((2, len(bets))))

    def add(self, emissions: Emissions) -> None:
        """Take in emissions; they should be chosen without a look at what came out."""
        self.seen += len(emissions)
        for sums in self._sums.values():
            out = sums.fault.rows(emissions.target, emissions.draft)
            sums.tv += float(distance(out, emissions.target).sum())
            ratio = quotient(out, emissions.target)
            for at, bet in enumerate(sums.bets):
                sums.moments[:, at] += self._moments(emissions, out, 1 - bet.share + bet.share * ratio)

    def predictions(self, tokens: int) -> tuple[Prediction, ...]:
        """What each family would have meant for an audit of this many tokens; those that act here."""
        acting = [sums for sums in self._sums.values() if sums.tv > ACTS * self.seen]
        return tuple(self._prediction(sums, tokens) for sums in acting)

    def distance_of(self, name: str) -> float | None:
        """Mean total variation of a family by its name; None for what is none."""
        return self._sums[name].tv / max(1, self.seen) if name in self._sums else None

    def _prediction(self, sums: _Sums, tokens: int) -> Prediction:
        found = [(NOTHING, float("inf"))]
        for bet, (growth, variance) in zip(sums.bets, sums.moments.T / self.seen, strict=True):
            found.append((bet.name, n95(growth, variance, -np.log(self.alpha) - np.log(bet.weight))))
        name, needed = min(found, key=lambda each: each[1])
        tv = sums.tv / self.seen
        return Prediction(sums.fault.name, tv, needed, name, tv * float(np.sqrt(needed / tokens)))

    def _moments(self, emissions: Emissions, out: Floats, ratio: Floats) -> tuple[float, float]:
        """Growth and variance of a bet's logarithm under rows [n, V] that come out, summed over emissions.

        The bet is given as its e-value for every token that has target mass.
        """
        # A token without target mass convicts at once: it counts as the whole barrier.
        ratio = np.where(emissions.target > 0, ratio, 1 / self.alpha)
        logs = np.log(ratio, where=(out > 0) & (ratio > 0), out=np.zeros_like(ratio))
        growth = (out * logs).sum(1)
        variance = (out * logs**2).sum(1) - growth**2
        # A token that the bet rules out ruins it.
        ruined = bool((out[ratio <= 0] > 0).any())
        return (-np.inf if ruined else float(growth.sum())), float(np.maximum(variance, 0).sum())


def _bets_on(fault: Fault, mixture: Mixture) -> Iterator[_Bet]:
    """The bets that a family is looked for with: its own law, at every share."""
    for arm in mixture.arms:
        if isinstance(arm, Library) and fault in arm.faults:
            yield from (_Bet(fault.name, mixture.weight(arm), share) for share in arm.shares)
        if isinstance(arm, Temperature) and fault.name in arm.bets:
            yield _Bet(fault.name, mixture.weight(arm), 1.0)
