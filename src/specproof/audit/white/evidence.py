"""The capital of all bets together, after every token: one e-process for a whole run of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from specproof.audit.white.arms import Arm, DraftTilt, Library, Position, Serial, Temperature, log_sum
from specproof.audit.white.emission import STRATA, Emissions, Flags, Floats
from specproof.audit.white.faults import FAULTS
from specproof.errors import SpecproofError

_ALWAYS: tuple[Arm, ...] = (
    Temperature(),
    Position("A2 rank", "probability"),
    Position("A3 token order", "token"),
)
WITHOUT_DRAFT: tuple[Arm, ...] = (
    *_ALWAYS,
    Library(faults=tuple(fault for fault in FAULTS if not fault.needs_draft)),
)
WITH_DRAFT: tuple[Arm, ...] = (
    *_ALWAYS,
    Position("A4 draft / target", "ratio"),
    DraftTilt(),
    Library(),
)
REPEATS = "A8 repeated texts"


@dataclass(frozen=True)
class Mixture:
    """How the first unit of capital is divided; fixed before the first token.

    Attributes:
        arms: with equal parts of `everywhere` on all emissions, and of `by_stratum` on each stratum alone.
        serial: the part of arm A7.
        repeats: the part of arm A8.
    """

    arms: tuple[Arm, ...] = WITH_DRAFT
    everywhere: float = 0.75
    by_stratum: float = 0.2
    serial: float = 0.025
    repeats: float = 0.025

    def __post_init__(self) -> None:
        parts = (self.everywhere, self.by_stratum, self.serial, self.repeats)
        if not self.arms or min(parts) < 0 or abs(sum(parts) - 1) > 1e-12:
            raise SpecproofError(
                f"weights {parts}, {len(self.arms)} arms: give arms, and parts >= 0 that sum to 1"
            )

    @staticmethod
    def plain(arms: Sequence[Arm]) -> Mixture:
        """The mean of some arms, with nothing beside it."""
        return Mixture(tuple(arms), 1.0, 0.0, 0.0, 0.0)

    @staticmethod
    def unplaced(drafts: bool) -> Mixture:
        """The bets on texts of which nobody saw where drafts begin, with draft rows or without: one stratum."""
        arms = WITH_DRAFT if drafts else WITHOUT_DRAFT
        return Mixture(arms, everywhere=0.95, by_stratum=0.0, serial=0.025, repeats=0.025)

    def weight(self, arm: Arm) -> float:
        """What one bet of an arm starts with, on all emissions."""
        return self.everywhere / len(self.arms) / len(arm.bets)

    def described(self) -> dict[str, object]:
        """For the plan: every bet by name, and the parts."""
        bets = {arm.name: list(arm.bets) for arm in self.arms}
        parts = {name: getattr(self, name) for name in ("everywhere", "by_stratum", "serial", "repeats")}
        return {"bets": bets, "parts": parts, "strata": list(STRATA)}


@dataclass
class _Purse:
    """Capitals of an arm's bets on some of the emissions."""

    logs: Floats
    highest: float = 0.0
    now: float = 0.0

    def play(self, increments: Floats, here: Flags | None = None) -> Floats:
        """[n] logarithm of the mean capital after each emission, played at those that are `here`."""
        played = increments if here is None else increments[here]
        means = np.empty(len(played) + 1)
        means[0] = self.now
        if len(played):
            paths = self.logs + np.cumsum(played, axis=0)
            self.logs = paths[-1]
            means[1:] = log_sum(paths) - np.log(len(self.logs))
            self.now = float(means[-1])
            self.highest = max(self.highest, float(means.max()))
        return means[1:] if here is None else means[np.cumsum(here)]


@dataclass
class Evidence:
    """Plays a mixture against emissions as they come, in any portions.

    Attributes:
        mixture: how capital was divided.
        tokens: how many were played.
        log_e, highest: logarithm of the capital now, and at its highest after any token.
        forbidden: tokens that had no target mass; one is proof.
        history: after each portion: tokens so far, logarithm of the capital, and of each arm's on all emissions.
    """

    mixture: Mixture = field(default_factory=Mixture)
    tokens: int = 0
    log_e: float = 0.0
    highest: float = 0.0
    forbidden: int = 0
    history: list[tuple[int, float, tuple[float, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        arms, self._serial_arm = self.mixture.arms, Serial()
        self._all = [_Purse(np.zeros(len(arm.bets))) for arm in arms]
        self._strata = [[_Purse(np.zeros(len(arm.bets))) for arm in arms] for _ in STRATA]
        self._serial = _Purse(np.zeros(len(self._serial_arm.bets)))
        self._repeats = _Purse(np.zeros(1))
        mixture, count, strata = self.mixture, len(arms), len(STRATA)
        weights = [mixture.everywhere / count] * count + [mixture.by_stratum / count / strata] * (count * strata)
        with np.errstate(divide="ignore"):
            self._log_weights = np.log(np.array([*weights, mixture.serial, mixture.repeats]))
        self._parts = np.zeros(len(self._log_weights))

    def play(self, emissions: Emissions) -> Floats:
        """[n] logarithm of the capital after each of these emissions; infinite once a token had no mass."""
        if len(emissions) == 0:
            return np.zeros(0)
        steps = [arm.log_e(emissions) for arm in self.mixture.arms]
        paths = [purse.play(step) for purse, step in zip(self._all, steps, strict=True)]
        for number, purses in enumerate(self._strata):
            here = emissions.strata == number
            paths += [purse.play(step, here) for purse, step in zip(purses, steps, strict=True)]
        paths.append(self._serial.play(self._serial_arm.log_e(emissions)))
        paths.append(np.full(len(emissions), self._repeats.logs[0]))
        stacked = np.stack(paths)
        self._parts = stacked[:, -1].copy()
        path = log_sum(stacked.T + self._log_weights)
        missing = emissions.mass <= 0
        self.forbidden += int(missing.sum())
        path = np.where(np.cumsum(missing) + (self.forbidden - missing.sum()) > 0, np.inf, path)
        self.tokens += len(emissions)
        self._note(path)
        self.history.append((self.tokens, self.log_e, tuple(float(each[-1]) for each in stacked[: len(steps)])))
        return path

    def play_repeat(self, log_e: float) -> None:
        """Arm A8: a text is complete, and its e-value against earlier texts of its prompt is this."""
        if not self.mixture.repeats:
            return
        self._parts[-1] = self._repeats.play(np.array([[log_e]]))[0]
        if not self.forbidden:
            self._note(log_sum(self._parts[None] + self._log_weights))

    def by_arm(self) -> dict[str, float]:
        """Highest logarithm of each arm's own capital, had it been played alone on all emissions."""
        arms = {arm.name: purse.highest for arm, purse in zip(self.mixture.arms, self._all, strict=True)}
        return arms | {self._serial_arm.name: self._serial.highest, REPEATS: self._repeats.highest}

    def by_stratum(self) -> dict[str, float]:
        """Highest logarithm of any arm's capital on each stratum alone."""
        pairs = zip(STRATA, self._strata, strict=True)
        return {name: max(purse.highest for purse in purses) for name, purses in pairs}

    def best_bet(self) -> tuple[Arm, int]:
        """The arm and the bet with the largest capital on all emissions."""
        best = max(range(len(self._all)), key=lambda at: float(self._all[at].logs.max()))
        return self.mixture.arms[best], int(self._all[best].logs.argmax())

    def capital_of(self, arm: Arm) -> Floats:
        """[bets] logarithm of the capital of each bet of an arm on all emissions."""
        return self._all[self.mixture.arms.index(arm)].logs

    @property
    def pvalue(self) -> float:
        """Valid at any time, whatever was looked at before: min(1, 1 / highest capital)."""
        return 0.0 if self.forbidden else float(np.exp(-self.highest))

    def _note(self, path: Floats) -> None:
        self.log_e = float(path[-1])
        self.highest = max(self.highest, float(path.max()))
