"""What an audit of numerics found, and its verdict in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from specproof.audit.answer import Answer, Verdict, finite
from specproof.audit.numerics.moved import Moved, Summary
from specproof.audit.report import TOLERANCE
from specproof.audit.white.near_tie import margin_for
from specproof.audit.white.plan import digest

# A forward whose logits are further from plain decoding's than this many times what rounding did in plain
# decoding, at its worst position or on average, was not moved by rounding alone. Rounding itself comes to 0.9 to
# 1.5 times that (docs/audit-contracts.md).
BEYOND, BEYOND_MEAN = 6.0, 3.0
# Rounding below this is none: the last bits of float64 logits.
FLOOR = 1e-9
# Plain decoding further away than this, in standard deviations of the logits, does not run the reference's model.
OTHER_MODEL = 0.5


@dataclass(frozen=True)
class Setting:
    """One way to run the model: how keys and values are kept, texts in a forward, rows of each."""

    kv: str
    batch: int
    width: int

    @property
    def plain(self) -> Setting:
        """One text, one row: decoding without speculation."""
        return Setting(self.kv, 1, 1)

    def __str__(self) -> str:
        kept = "" if self.kv == "model" else f", keys and values in {self.kv}"
        return f"width {self.width}, batch {self.batch}{kept}"


@dataclass(frozen=True)
class Measured:
    """Rows of one setting.

    Attributes:
        setting: how the model was run.
        reference: against the reference's rows.
        decoded: against plain decoding's in the same dtype: what speculation adds.
    """

    setting: Setting
    reference: Moved
    decoded: Moved

    def further(self, rounding: Moved) -> float:
        """How many times as far from plain decoding as rounding goes; above 1 is no rounding."""
        worst = self.decoded.spread.max() / max(FLOOR, rounding.spread.max())
        mean = self.decoded.spread.mean() / max(FLOOR, rounding.spread.mean())
        return float(max(worst / BEYOND, mean / BEYOND_MEAN))


@dataclass(frozen=True)
class NumericsResult:
    """Audit of a model's rows under many ways to run it.

    Attributes:
        model, dtype, reference: what was run, and the dtype that it was compared with.
        measured: every setting; plain decoding of each kv among them.
        plan: what was fixed before.
        replay: a command that runs it again.
    """

    model: str
    dtype: str
    reference: str
    measured: tuple[Measured, ...]
    plan: dict[str, Any]
    replay: str

    @property
    def tv(self) -> float:
        """Largest total variation from the reference's rows."""
        return max(float(each.reference.tv.max()) for each in self.measured)

    @property
    def samples(self) -> int:
        """Positions compared in every setting."""
        return len(self.measured[0].reference.tv)

    def rounding(self, each: Measured) -> Moved:
        """What rounding did in plain decoding with these keys and values."""
        return next(other for other in self.measured if other.setting == each.setting.plain).reference

    @property
    def faulty(self) -> tuple[Measured, ...]:
        """Settings with rows that rounding alone does not explain, the worst first."""
        further = {each.setting: each.further(self.rounding(each)) for each in self.measured}
        found = [each for each in self.measured if further[each.setting] > 1]
        return tuple(sorted(found, key=lambda each: -further[each.setting]))

    @property
    def verdict(self) -> Verdict:
        """EXACT, LOSSLESS WITHIN NUMERICS, BIASED (a forward is wrong), or no baseline (another model)."""
        if any((each.reference.spread > OTHER_MODEL * each.reference.scale).any() for each in self._plain()):
            return Verdict.NO_BASELINE
        if self.faulty:
            return Verdict.BIASED
        return Verdict.EXACT if self.tv <= TOLERANCE else Verdict.WITHIN_NUMERICS

    @property
    def ok(self) -> bool:
        """Every row is the reference's up to rounding."""
        return self.verdict.exit_code == 0

    @property
    def reason(self) -> str:
        """The verdict's reason in words."""
        if self.verdict is Verdict.NO_BASELINE:
            worst = max(
                self._plain(), key=lambda each: float((each.reference.spread / each.reference.scale).max())
            )
            away = float((worst.reference.spread / worst.reference.scale).max())
            return (
                f"plain decoding ({worst.setting}) is up to {away:.2f} standard deviations of the logits from "
                f"{self.reference} (rounding stays below {OTHER_MODEL}): not the same model, or too few bits"
            )
        if self.faulty:
            worst = self.faulty[0]
            found, rounding = worst.decoded.spread, self.rounding(worst).spread
            return (
                f"{worst.setting}: rows are further from plain decoding than rounding moves them, a logit by "
                f"{found.mean():.2g} on average and up to {found.max():.2g}, where rounding does "
                f"{rounding.mean():.2g} and {rounding.max():.2g} ({len(self.faulty)} settings); "
                "suspect mask, positions or cache"
            )
        return self._harmless()

    def _harmless(self) -> str:
        plain = Summary.of(self._plain()[0].reference)
        words = (
            f"{self.dtype} moves a row of plain decoding by TV {plain.tv[0]:.2g} on average (99 %: "
            f"{plain.tv[3]:.2g}) from {self.reference}, and changes the likeliest token at {plain.flips} of "
            f"{plain.positions} positions"
        )
        if len(self.measured) == len(self._plain()):
            return words
        worst = max(self._wide(), key=lambda each: float(each.decoded.tv.mean()))
        wide = Summary.of(worst.decoded)
        return (
            f"{words}; reading more rows at a time moves it by at most TV {wide.tv[0]:.2g} on average "
            f"(99 %: {wide.tv[3]:.2g}; {worst.setting}) from plain decoding, and no row further than rounding does"
        )

    def _plain(self) -> list[Measured]:
        return [each for each in self.measured if each.setting == each.setting.plain]

    def _wide(self) -> list[Measured]:
        return [each for each in self.measured if each.setting != each.setting.plain]

    @property
    def margin(self) -> float:
        """The gap of two logits that rounding of the largest kind seen flips once in a million times."""
        return margin_for(max(float(each.reference.spread.max()) for each in self.measured))

    @property
    def answer(self) -> Answer:
        """The common form."""
        plain = Summary.of(self._plain()[0].reference)
        return Answer(
            kind="numerics",
            subject=f"{self.model} in {self.dtype}",
            verdict=self.verdict,
            reason=self.reason,
            alpha=0.0,
            plan=self.plan,
            digest=digest(self.plan),
            samples=self.samples,
            tv=self.tv,
            ledger={
                "mean TV": plain.tv[0],
                "99 % TV": plain.tv[3],
                "largest TV": plain.tv[4],
                "margin": self.margin,
            },
            replay=self.replay,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """For JSON: every setting, in numbers and position by position."""
        return finite(
            {
                "settings": [
                    {"kv": each.setting.kv, "batch": each.setting.batch, "width": each.setting.width}
                    | {"against_reference": _numbers(each.reference), "against_decoding": _numbers(each.decoded)}
                    for each in self.measured
                ]
            }
        )

    def __str__(self) -> str:
        return f"{self.verdict.value}: {self.reason}"


def _numbers(moved: Moved) -> dict[str, Any]:
    summary = Summary.of(moved)
    names = ("mean", "median", "p90", "p99", "largest")
    quantiles = {
        name: dict(zip(names, numbers, strict=True))
        for name, numbers in (("tv", summary.tv), ("kl", summary.kl), ("log", summary.log))
    }
    per_position = {name: _short(getattr(moved, name)) for name in ("tv", "kl", "log", "gap")}
    return quantiles | {
        "flips": summary.flips,
        "widest_flip": summary.widest,
        "support": summary.support,
        "per_position": per_position | {"flip": moved.flip.tolist()},
    }


def _short(values: np.ndarray[Any, Any]) -> list[float]:
    """Six digits are more than a distance between rounded rows has."""
    return [float(f"{value:.6g}") for value in values]
