"""Bets against the hypothesis that each token was drawn from its target row.

An e-value is at least 0 and has mean 1 if the hypothesis holds, whatever came before. The product over
emissions is then a fair game's capital: it ever reaches 1/alpha with probability at most alpha (Ville), so one
may look after every token and stop at will. An arm is a kind of bet in several sizes; all are played.

Two ways to make one, both exact: f(token) / sum of target x f, for any f that is known beforehand; and a bet on
the token's position in its row, uniform on [0, 1) once the row's steps are filled by fresh noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from specproof.audit.white.emission import Emissions, Flags, Floats, quotient
from specproof.audit.white.faults import EXPONENTS, FAULTS, Fault

STAKES = tuple(sign * size for size in (0.03, 0.1, 0.25) for sign in (1, -1))
SHAPES = (1, 2, 3, 4)
# A draft tilt sees a token without draft mass as if it had this share of its target mass.
_LEAST = -20.0


class Arm(Protocol):
    """A kind of bet.

    Attributes:
        name: a letter and a number, as tables name it, and words.
        bets: what each of its bets is on.
    """

    @property
    def name(self) -> str:
        """See above."""

    @property
    def bets(self) -> tuple[str, ...]:
        """See above."""

    def log_e(self, emissions: Emissions) -> Floats:
        """[n, bets] logarithm of the e-values; tokens without target mass are 0 here and count elsewhere."""


@dataclass(frozen=True)
class Temperature:
    """A1: the target's row raised to a power."""

    name: str = "A1 temperature"
    exponents: tuple[float, ...] = EXPONENTS

    @property
    def bets(self) -> tuple[str, ...]:
        """One for each power."""
        return tuple(f"temperature times {1 / exponent:.2f}" for exponent in self.exponents)

    def log_e(self, emissions: Emissions) -> Floats:
        """See `Arm.log_e`."""
        logs = emissions.log_target
        at = _at_token(emissions, logs)
        columns = [(power - 1) * at - log_sum(power * logs) for power in self.exponents]
        return _allowed(emissions, np.stack(columns, 1))

    def factors(self, emissions: Emissions) -> Iterator[Floats]:
        """[n, V] for each bet: its e-value for every token that could come out."""
        for power in self.exponents:
            yield _normalised((power - 1) * emissions.log_target, emissions)


@dataclass(frozen=True)
class DraftTilt:
    """A5: a power of draft / target; nothing is bet where nothing was drafted."""

    name: str = "A5 draft tilt"
    powers: tuple[float, ...] = (-0.5, -0.2, -0.05, 0.05, 0.1, 0.2, 0.4, 0.7)

    @property
    def bets(self) -> tuple[str, ...]:
        """One for each power."""
        return tuple(f"(draft / target) ^ {power:g}" for power in self.powers)

    def log_e(self, emissions: Emissions) -> Floats:
        """See `Arm.log_e`."""
        found = np.zeros((len(emissions), len(self.powers)))
        if emissions.drafted.any():
            drafted = emissions.some(emissions.drafted)
            logs = self._logs(drafted)
            at = drafted.at_token(logs)
            columns = [power * at - log_sum(drafted.log_target + power * logs) for power in self.powers]
            found[emissions.drafted] = np.stack(columns, 1)
        return _allowed(emissions, found)

    def factors(self, emissions: Emissions) -> Iterator[Floats]:
        """[n, V] for each bet: its e-value for every token that could come out."""
        logs = self._logs(emissions)
        for power in self.powers:
            yield np.where(emissions.drafted[:, None], _normalised(power * logs, emissions), 1)

    @staticmethod
    def _logs(emissions: Emissions) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.clip(np.log(emissions.ratio), _LEAST, -_LEAST))


@dataclass(frozen=True)
class Library:
    """A6: the law of each known fault, at some share of the emissions."""

    name: str = "A6 known faults"
    faults: tuple[Fault, ...] = FAULTS
    shares: tuple[float, ...] = (1.0, 0.3, 0.1)

    @property
    def bets(self) -> tuple[str, ...]:
        """One for each fault and share."""
        return tuple(
            fault.name + ("" if share == 1 else f", at a share of {share:g}")
            for fault in self.faults
            for share in self.shares
        )

    def log_e(self, emissions: Emissions) -> Floats:
        """See `Arm.log_e`."""
        columns = []
        for fault in self.faults:
            out = emissions.at_token(fault.rows(emissions.target, emissions.draft))
            columns += [_blend(quotient(out, emissions.mass), share) for share in self.shares]
        with np.errstate(divide="ignore"):
            return _allowed(emissions, np.log(np.stack(columns, 1)))

    def factors(self, emissions: Emissions) -> Iterator[Floats]:
        """[n, V] for each bet: its e-value for every token that could come out."""
        for fault in self.faults:
            ratio = quotient(fault.rows(emissions.target, emissions.draft), emissions.target)
            for share in self.shares:
                yield _blend(ratio, share)


@dataclass(frozen=True)
class Position:
    """A2 to A4: the token's position in its row, in the order of `by`, along four Legendre shapes."""

    name: str
    by: Literal["probability", "token", "ratio"]

    @property
    def bets(self) -> tuple[str, ...]:
        """One for each shape and stake."""
        return tuple(f"shape {shape}, stake {stake:+g}" for shape in SHAPES for stake in STAKES)

    def positions(self, emissions: Emissions) -> Floats:
        """[n] uniform on [0, 1) if the hypothesis holds."""
        before = (emissions.target * self._earlier(emissions)).sum(1)
        return np.asarray(np.clip(before + emissions.noise * emissions.mass, 0, 1))

    def values(self, emissions: Emissions) -> Floats:
        """[n, bets] the e-values."""
        shapes = legendre(self.positions(emissions))
        bets = (1 + stake * shapes[shape - 1] for shape in SHAPES for stake in STAKES)
        played = np.stack(list(bets), 1)
        return played if self.by != "ratio" else np.where(emissions.drafted[:, None], played, 1)

    def log_e(self, emissions: Emissions) -> Floats:
        """See `Arm.log_e`."""
        return _allowed(emissions, np.log(self.values(emissions)))

    def _earlier(self, emissions: Emissions) -> Flags:
        """[n, V] which tokens stand before the emitted one; equal ones stand in the order of their numbers."""
        numbers = np.arange(emissions.target.shape[1])
        earlier = numbers < emissions.tokens[:, None]
        if self.by == "token":
            return earlier
        keys = emissions.target if self.by == "probability" else emissions.ratio
        at = emissions.at_token(keys)[:, None]
        return np.asarray((keys > at) | ((keys == at) & earlier))


@dataclass(frozen=True)
class Serial:
    """A7: the positions of two tokens in a row, which share a number that was used twice."""

    name: str = "A7 neighbours"
    by: Position = Position("A2", "probability")

    @property
    def bets(self) -> tuple[str, ...]:
        """One for each stake."""
        return tuple(f"stake {stake:+g}" for stake in STAKES)

    def log_e(self, emissions: Emissions) -> Floats:
        """See `Arm.log_e`."""
        shape = legendre(self.by.positions(emissions))[0]
        both = np.where(emissions.follows, shape * np.roll(shape, 1), 0)
        return _allowed(emissions, np.log1p(np.outer(both, STAKES)))


def legendre(positions: Floats) -> list[Floats]:
    """The first four Legendre polynomials on [0, 1], with mean 0 and variance 1; none exceeds 3."""
    t = 2 * positions - 1
    return [
        np.sqrt(3) * t,
        np.sqrt(5) * (3 * t**2 - 1) / 2,
        np.sqrt(7) * (5 * t**3 - 3 * t) / 2,
        3 * (35 * t**4 - 30 * t**2 + 3) / 8,
    ]


def repeated(text: tuple[int, ...], before: list[tuple[tuple[int, ...], float]], share: float = 0.5) -> float:
    """A8: logarithm of the e-value of a text, from earlier texts of its prompt with their log-probabilities.

    Seeds that are shared give equal texts, each of which comes up as often as it should only by chance.
    """
    if not before:
        return 0.0
    equal = [np.log(share / len(before)) - logarithm for other, logarithm in before if other == text]
    return float(np.logaddexp.reduce([np.log1p(-share), *equal]))


def _blend(ratio: Floats, share: float) -> Floats:
    return 1 - share + share * ratio


def _at_token(emissions: Emissions, rows: Floats) -> Floats:
    """Entries at the token, 0 where it has no target mass."""
    return np.where(emissions.mass > 0, emissions.at_token(rows), 0)


def _allowed(emissions: Emissions, logs: Floats) -> Floats:
    """No bet on a token without mass: it settles the matter by itself (see `evidence`)."""
    return np.where(emissions.mass[:, None] > 0, logs, 0)


def log_sum(rows: Floats) -> Floats:
    """[n] logarithm of the sum of exp of rows [n, V], with at least one finite entry each."""
    top = rows.max(1, keepdims=True)
    return np.asarray(np.log(np.exp(rows - top).sum(1)) + top[:, 0])


def _normalised(logs: Floats, emissions: Emissions) -> Floats:
    """[n, V] exp of logs, scaled to mean 1 under the target; 1 where the target has no mass."""
    with np.errstate(invalid="ignore"):
        total = log_sum(np.where(emissions.target > 0, emissions.log_target + logs, -np.inf))
    return np.where(emissions.target > 0, np.exp(np.where(emissions.target > 0, logs, 0) - total[:, None]), 1)
