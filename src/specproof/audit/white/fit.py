"""Which known fault fits best, and how large it is, once the target's law is refuted."""

from __future__ import annotations

import numpy as np

from specproof.audit.white.arms import SHAPES, STAKES, Arm, Library, Position, Temperature, legendre
from specproof.audit.white.evidence import Evidence
from specproof.audit.white.planner import Planner

# A fault is named unless an unnamed bet did better by this factor, as a logarithm.
_CLEARLY = 5.0


def best_fit(evidence: Evidence, planner: Planner) -> tuple[float, str]:
    """Mean total variation and name of the bet with the largest capital.

    Known faults and temperatures come first; a position in a row, which names no fault, has to be clearly better.
    """
    named: list[tuple[float, float, str]] = []
    unnamed: list[tuple[float, float, str]] = []
    for arm in evidence.mixture.arms:
        capital = evidence.capital_of(arm)
        for at, log_e in enumerate(capital):
            size = _size(arm, at, planner)
            if size is not None:
                kind = unnamed if isinstance(arm, Position) else named
                kind.append((float(log_e), size, _words(arm, at)))
    best = max(named, default=(-np.inf, 0.0, "none"))
    other = max(unnamed, default=(-np.inf, 0.0, "none"))
    _, size, name = other if other[0] > best[0] + _CLEARLY else best
    return size, name + _stratum(evidence)


def _size(arm: Arm, at: int, planner: Planner) -> float | None:
    """Mean total variation of the law that a bet stands for; None for tilts, which stand for none."""
    if isinstance(arm, Library):
        fault, share = divmod(at, len(arm.shares))
        distance = planner.distance_of(arm.faults[fault].name)
        return None if distance is None else arm.shares[share] * distance
    if isinstance(arm, Temperature):
        return planner.distance_of(arm.bets[at])
    if isinstance(arm, Position):
        shape, stake = divmod(at, len(STAKES))
        values = legendre((np.arange(4000) + 0.5) / 4000)[SHAPES[shape] - 1]
        return float(abs(STAKES[stake]) * np.abs(values).mean() / 2)
    return None


def _words(arm: Arm, at: int) -> str:
    return f"no known fault, {arm.name} {arm.bets[at]}" if isinstance(arm, Position) else arm.bets[at]


def _stratum(evidence: Evidence) -> str:
    """Where it shows, if one part of the drafts shows it better than all together."""
    strata = evidence.by_stratum()
    best = max(strata, key=lambda name: strata[name])
    return f", at the {best}" if strata[best] > max(evidence.by_arm().values()) else ""
