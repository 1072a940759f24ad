"""What an audit of rollouts found, for people and for machines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from specproof.audit.answer import Answer, Check, Family, Judged, Table, Verdict
from specproof.audit.rollouts.plan import BETS, CONVENTIONS, STALE, RolloutPlan
from specproof.audit.rollouts.verdict import Seen


@dataclass(frozen=True)
class RolloutResult(Judged):
    """Audit of rollouts.

    Attributes:
        verdict: see `Verdict`.
        reason: of the verdict, in words.
        setting: what was audited.
        plan, digest: what was fixed beforehand, and its hash.
        seen: what was seen.
        replay: a command that runs it again, if there is one.
    """

    verdict: Verdict
    reason: str
    setting: dict[str, Any]
    plan: RolloutPlan
    digest: str
    seen: Seen
    replay: str = ""

    @property
    def tv(self) -> float | None:
        """Estimated total variation of the law that fits best; None where nothing speaks against 0."""
        return self.seen.tv

    @property
    def samples(self) -> int:
        """Tokens that were looked at."""
        return self.seen.tokens

    @property
    def power(self) -> float:
        """Total variation that would have been caught with 95 % power; see `Seen.power`."""
        return self.seen.power

    @property
    def checks(self) -> tuple[Check, ...]:
        """The tests that were made, each with its part of alpha; none at temperature 0."""
        seen, levels = self.seen, self.plan.levels(self.seen.stale is not None)
        arms = {BETS: seen.bets, STALE: seen.stale}
        return tuple(
            Check(name, found.pvalue, levels[name], found.tokens)
            for name, found in arms.items()
            if found is not None and found.tokens
        )

    @property
    def pvalue(self) -> float:
        """Valid whenever one looks: at most alpha if one of the tests convicts. Of greedy text, 0 or 1."""
        ties = self.seen.ties
        greedy = 1.0 if ties is None or ties.ok else 0.0
        return min(greedy, *(check.pvalue * self.plan.alpha / check.level for check in self.checks), 1.0)

    @property
    def acceptance(self) -> float | None:
        """Accepted / drafted tokens; None where the file does not tell."""
        drafted, accepted = self.seen.drafted, self.seen.accepted
        return accepted / drafted if drafted and accepted is not None else None

    @property
    def subject(self) -> str:
        """What was audited, in words."""
        return f"{self.seen.texts} rollouts"

    def __str__(self) -> str:
        seen = self.seen
        lines = [
            f"{self.verdict.value}: {self.subject}: {self.reason}",
            f"p-value {self.pvalue:.2g}, false alarms <= {self.plan.alpha:g}, after {seen.tokens} tokens",
        ]
        if seen.stale is not None:
            lines.append(f"bets on the policy's rows: {seen.bets.pvalue:.2g}; on --stale: {seen.stale.pvalue:.2g}")
        if seen.ties is not None:
            lines.append(str(seen.ties))
        if seen.predictions and self.verdict is not Verdict.BIASED and np.isfinite(self.power):
            hidden = max(seen.predictions, key=lambda prediction: prediction.detectable)
            lines.append(f"known faults of TV {self.power:.3f} are caught with 95 % power (least: {hidden.fault})")
        for offs in seen.offs.values():
            best = offs[0]
            lines.append(
                f"{best.column} against {best.checkpoint}: {best.convention}, off by {best.mean:.1e} nats a token "
                f"(99 % {best.p99:.1e}, mean shift {best.shift:+.1e})"
            )
        if self.acceptance is not None:
            lines.append(f"acceptance {self.acceptance:.2f}, {seen.accepted} of {seen.drafted} drafted")
        lines.append(str(seen.ledger))
        lines += [f"note: {note}" for note in seen.notes]
        lines.append(f"plan {self.digest}" + (f"; again: {self.replay}" if self.replay else ""))
        return "\n  ".join(lines)

    def answer(self) -> Answer:
        """The common form of audits' answers."""
        seen = self.seen
        return Answer(
            kind="rollouts",
            subject=self.subject,
            verdict=self.verdict,
            reason=self.reason,
            alpha=self.plan.alpha,
            plan=asdict(self.plan) | {"setting": self.setting},
            digest=self.digest,
            pvalue=self.pvalue,
            samples=self.samples,
            tv=self.tv,
            power=self.power,
            acceptance=self.acceptance,
            tests=self.checks,
            tracks=seen.tracks,
            barrier=self.plan.bets(BETS, seen.stale is not None).barrier if seen.tracks else 0.0,
            families=tuple(Family(p.fault, p.tv, p.n95, p.detectable, p.bet) for p in seen.predictions),
            ledger=asdict(seen.ledger),
            tables=_tables(seen),
            notes=seen.notes,
            replay=self.replay,
        )


def _tables(seen: Seen) -> tuple[Table, ...]:
    """The log-probabilities against every convention."""
    rows = tuple(
        (off.column, off.checkpoint, off.convention, *(f"{v:.2g}" for v in off[4:8]), f"{off.shift:+.2g}")
        for offs in seen.offs.values()
        for off in offs
    )
    if not rows:
        return ()
    heads = ("column", "checkpoint", "convention", "mean", "median", "99 %", "largest", "mean shift")
    meanings = "; ".join(f"{name}: {words}" for name, words in CONVENTIONS.items())
    note = f"Differences a token between what the file tells and what the checkpoint gives, in nats. {meanings}."
    return (Table("Log-probabilities", note, heads, rows),)
