"""A setting's rows with and without speculation, compared; and the answer over all settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specproof.audit.answer import Answer, Table, Verdict
from specproof.audit.white.plan import digest

# Masses closer than this, relatively, are a tie: which of two equal tokens a filter keeps is nobody's law.
_TIE = 1e-9


@dataclass(frozen=True)
class Compared:
    """One setting of the sampling parameters.

    Attributes:
        setting, where: the parameters, and what drafted on which model.
        rows: how many rows (or, for exact laws, texts) were compared.
        drafted: how many of them speculation made; for rows, how many stood after a drafted token.
        tv: largest total variation.
        tolerance: up to which it is rounding.
        support: rows with mass on a token that the other has none on, equal tokens at a filter's edge apart.
        ties: rows that differ in such tokens only; their distance is not in `tv`.
        note: why nothing could be compared, or where the worst row was.
    """

    setting: str
    where: str
    rows: int
    drafted: int
    tv: float
    tolerance: float
    support: int = 0
    ties: int = 0
    note: str = ""

    @property
    def ok(self) -> bool:
        """The same law up to rounding, support included; nothing to compare is neither."""
        return self.tv <= self.tolerance and self.support == 0

    def __str__(self) -> str:
        word = "same" if self.ok else "OTHER LAW"
        shares = f"{self.support} with another support, " if self.support else ""
        return f"{word}: TV {self.tv:.1e}, {shares}{self.rows} compared ({self.where}; {self.setting})"


@dataclass
class Tally:
    """Rows of one setting as they come."""

    rows: int = 0
    drafted: int = 0
    tv: float = 0.0
    support: int = 0
    ties: int = 0
    worst: str = ""

    def add(self, row: Tensor, expected: Tensor, drafted: bool, place: str) -> None:
        """Compare a row [V] with the one that it should be."""
        self.rows += 1
        self.drafted += drafted
        only = (row > 0) != (expected > 0)
        if bool(only.any()) and tied(row, expected):
            self.ties += 1
            return
        away = float((row.double() - expected.double()).abs().sum() / 2)
        if (bool(only.any()) and self.support == 0) or away > self.tv:
            self.worst = place
        self.support += bool(only.any())
        self.tv = max(self.tv, away)

    def compared(self, setting: str, where: str, tolerance: float, note: str = "") -> Compared:
        """What came out."""
        fine = self.tv <= tolerance and self.support == 0
        found = note or ("" if fine else self.worst)
        return Compared(
            setting, where, self.rows, self.drafted, self.tv, tolerance, self.support, self.ties, found
        )


def tied(row: Tensor, other: Tensor) -> bool:
    """Whether two rows [V] keep different tokens of equals at the edge of a filter, and nothing else differs."""
    wide, narrow = (row, other) if int((row > 0).sum()) >= int((other > 0).sum()) else (other, row)
    if bool(((narrow > 0) & (wide <= 0)).any()):
        return False
    least = wide[wide > 0].min()
    edge = (wide > 0) & (wide <= least * (1 + _TIE))
    dropped = (wide > 0) & (narrow <= 0)
    if bool((dropped & ~edge).any()) or not bool((edge & (narrow > 0)).any()):
        return False
    kept = torch.where(narrow > 0, wide, 0)
    return bool(((kept / kept.sum() - narrow).abs().sum() / 2) < 1e-6)


@dataclass(frozen=True)
class ParametersResult:
    """The law under all settings.

    Attributes:
        subject: whose law.
        compared: every setting.
        plan: what was fixed before.
        replay: a command that runs it again.
    """

    subject: str
    compared: tuple[Compared, ...]
    plan: dict[str, Any]
    replay: str = ""

    @property
    def tv(self) -> float:
        """Largest total variation."""
        return max((each.tv for each in self.compared), default=0.0)

    @property
    def faulty(self) -> tuple[Compared, ...]:
        """Settings under which speculation follows another law, those of fewest parameters first."""
        wrong = (each for each in self.compared if not each.ok)
        return tuple(sorted(wrong, key=lambda each: (len(each.setting), -each.tv)))

    @property
    def verdict(self) -> Verdict:
        """BIASED, NOT EXERCISED, or EXACT (every sum in double precision) or LOSSLESS WITHIN NUMERICS."""
        if self.faulty:
            return Verdict.BIASED
        if not any(each.drafted for each in self.compared):
            return Verdict.NOT_EXERCISED
        return Verdict.EXACT if self.tv <= 1e-12 else Verdict.WITHIN_NUMERICS

    @property
    def ok(self) -> bool:
        """The same law with speculation as without, under every setting."""
        return self.verdict.exit_code == 0

    @property
    def reason(self) -> str:
        """In words."""
        rows, drafted = (sum(getattr(each, name) for each in self.compared) for name in ("rows", "drafted"))
        if self.faulty:
            first = self.faulty[0]
            shown = f"; {first.support} rows keep other tokens" if first.support else ""
            place = f", {first.note}" if first.note else ""
            return (
                f"under {len(self.faulty)} of {len(self.compared)} settings speculation follows another law, "
                f"up to TV {self.tv:.2g}; simplest: {first.setting}, TV {first.tv:.2g} "
                f"({first.where}{place}){shown}"
            )
        if not drafted:
            notes = [each.note for each in self.compared if each.note]
            return f"no drafted token among {rows} compared{f' ({notes[0]})' if notes else ''}"
        return (
            f"the same law with speculation as without under all {len(self.compared)} settings, every pair of "
            f"parameters among them: {rows} rows and texts compared, {drafted} of them drafted; "
            f"largest TV {self.tv:.1e}"
        )

    @property
    def answer(self) -> Answer:
        """The common form."""
        refused = [f"{each.where}; {each.setting}: {each.note}" for each in self.compared if each.rows == 0]
        ties = sum(each.ties for each in self.compared)
        notes = [f"{ties} rows keep another of equally likely tokens at a filter's edge: no fault"] if ties else []
        return Answer(
            kind="parameters",
            subject=self.subject,
            verdict=self.verdict,
            reason=self.reason,
            alpha=0.0,
            plan=self.plan,
            digest=digest(self.plan),
            samples=sum(each.rows for each in self.compared),
            tv=self.tv,
            tables=(_table(self.compared),),
            notes=(*notes, *(f"not compared: {line}" for line in refused)),
            replay=self.replay,
        )


def _table(compared: Sequence[Compared]) -> Table:
    heads = ("where", "parameters", "same law?", "TV", "compared", "drafted", "other support", "ties")
    rows = tuple(
        (
            each.where,
            each.setting,
            ("yes" if each.ok else "NO") if each.rows else "not compared",
            f"{each.tv:.1e}",
            *(str(number) for number in (each.rows, each.drafted, each.support, each.ties)),
        )
        for each in compared
    )
    note = "Rows after every drafted path, or whole laws of texts, against the same without speculation."
    return Table("Every setting", note, heads, rows)
