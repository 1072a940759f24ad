"""Bets that stay fair for every law within a stated distance of the target's: what rounding cannot explain.

With a total variation of at most `delta` between the law and the target's row, the mean of f exceeds its mean
under the target by at most delta x (max f - min f). Dividing by the sum of both leaves an e-value. Clipping f
keeps its range, and with it what tolerance costs, small (in the spirit of Saha and Ramdas, arXiv 2408.14015).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from specproof.audit.white.arms import SHAPES, STAKES, Arm, DraftTilt, Library, Position, Temperature, legendre
from specproof.audit.white.emission import Emissions, Floats
from specproof.audit.white.evidence import WITH_DRAFT
from specproof.audit.white.faults import FAULTS

CLIPS = ((0.1, 4.0), (0.5, 2.0), (0.75, 1.33))
# Whole rows are needed here, for every bet: fewer of them, or the bets cost as much as the model.
_FEWER: tuple[Arm, ...] = (
    Temperature(exponents=(0.7, 0.93, 1.075, 1.43)),
    DraftTilt(powers=(-0.2, 0.2, 0.7)),
    Library(faults=tuple(fault for fault in FAULTS if fault.needs_draft), shares=(1.0,)),
    Library(faults=tuple(fault for fault in FAULTS if not fault.needs_draft), shares=(1.0,)),
)


@dataclass(frozen=True)
class Tolerant:
    """An arm made tolerant; its e-values have mean at most 1 for every law within `delta` of the target's.

    Attributes:
        inner: the arm.
        delta: total variation that is put down to rounding, at every emission.
    """

    inner: Arm
    delta: float

    @property
    def name(self) -> str:
        """The arm's own."""
        return self.inner.name

    @property
    def bets(self) -> tuple[str, ...]:
        """The arm's, each with every clip; positions have a small range as they are."""
        if isinstance(self.inner, Position):
            return self.inner.bets
        return tuple(f"{bet}, within {low:g} to {high:g}" for bet in self.inner.bets for low, high in CLIPS)

    def log_e(self, emissions: Emissions) -> Floats:
        """See `Arm.log_e`."""
        if isinstance(self.inner, Position):
            logs = np.log(self.inner.values(emissions)) - np.log1p(self.delta * self._ranges())
        else:
            # Whole rows cost: only those on which there is something to bet.
            needs_draft = isinstance(self.inner, DraftTilt) or (
                isinstance(self.inner, Library) and all(fault.needs_draft for fault in self.inner.faults)
            )
            here = emissions.drafted if needs_draft else np.ones(len(emissions), dtype=bool)
            logs = np.zeros((len(emissions), len(self.bets)))
            if here.any():
                logs[here] = self._whole_rows(emissions.some(here))
        return np.where(emissions.mass[:, None] > 0, logs, 0)

    def _whole_rows(self, emissions: Emissions) -> Floats:
        assert isinstance(self.inner, (Temperature, DraftTilt, Library))
        factors = self.inner.factors(emissions)
        return np.stack([column for rows in factors for column in self._clipped(rows, emissions)], 1)

    def _clipped(self, rows: Floats, emissions: Emissions) -> Iterator[Floats]:
        least, most = rows.min(1), rows.max(1)
        for low, high in CLIPS:
            factor = np.clip(rows, low, high)
            ranges = np.clip(most, low, high) - np.clip(least, low, high)
            mean = np.einsum("nv,nv->n", emissions.target, factor) + self.delta * ranges
            yield np.log(emissions.at_token(factor)) - np.log(mean)

    @staticmethod
    def _ranges() -> Floats:
        """[bets] largest minus smallest value of each bet on a position."""
        shapes = legendre(np.linspace(0, 1, 4001))
        return np.array([abs(stake) * np.ptp(shapes[shape - 1]) for shape in SHAPES for stake in STAKES])


def tolerant_arms(delta: float) -> tuple[Arm, ...]:
    """The arms on whole rows, fewer bets each, and on positions; all at one tolerance."""
    positions = [arm for arm in WITH_DRAFT if isinstance(arm, Position)]
    return tuple(Tolerant(arm, delta) for arm in (*_FEWER, *positions))
