"""The result of a statistical audit of an engine: what it says, and its common form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from specproof.audit.answer import Answer, Check, Family, Judged, Table, Verdict
from specproof.audit.white.draws import PanelResult
from specproof.audit.white.near_tie import NearTies
from specproof.audit.white.plan import BETS, PANEL, Plan
from specproof.audit.white.planner import NOTHING
from specproof.audit.white.verdict import Arms, Findings


@dataclass(frozen=True)
class WhiteResult(Judged):
    """Statistical audit of an engine whose target is at hand.

    Attributes:
        verdict: see `Verdict`.
        reason: of the verdict, in words.
        setting: what was audited, by name.
        plan, digest: what was fixed beforehand, and its hash.
        findings: what was seen.
        replay: a command that runs it again, if there is one.
    """

    verdict: Verdict
    reason: str
    setting: dict[str, Any]
    plan: Plan
    digest: str
    findings: Findings
    replay: str = ""

    @property
    def tv(self) -> float | None:
        """Estimated total variation a token of the law that fits best; None where nothing speaks against 0."""
        return self.findings.tv

    @property
    def pvalue(self) -> float:
        """Of all tests together: at most alpha if one of them convicts. Of greedy text, 0 or 1."""
        found = self.findings
        if found.greedy is not None:
            return float(found.greedy.ok)
        return min(1.0, *(check.pvalue * self.plan.alpha / check.level for check in self.checks))

    @property
    def checks(self) -> tuple[Check, ...]:
        """The tests that were made, each with its part of alpha; none at temperature 0."""
        found, plan = self.findings, self.plan
        if found.greedy is not None:
            return ()
        bets = Check(BETS, found.bets.pvalue, plan.levels[BETS], found.bets.tokens)
        return (bets, *(found.panel.checks(plan.levels) if found.panel is not None else ()))

    @property
    def samples(self) -> int:
        """Tokens audited with speculation on."""
        greedy = self.findings.greedy
        return self.findings.bets.tokens if greedy is None else greedy.tokens

    @property
    def power(self) -> float:
        """Total variation that would have been caught with 95 % power, for each known family of faults."""
        return self.findings.power

    def __str__(self) -> str:
        found = self.findings
        lines = [f"{self.verdict.value}: {self.subject}: {self.reason}"]
        if found.greedy is None:
            lines += [self._evidence(), *self._panel()]
        else:
            lines.append(str(found.greedy))
        if np.isfinite(self.power) and self.verdict is not Verdict.BIASED:
            hidden = max(found.predictions, key=lambda prediction: prediction.detectable)
            lines.append(f"known faults of TV {self.power:.3f} are caught with 95 % power (least: {hidden.fault})")
        lines.append(f"acceptance {found.acceptance:.2f}, {found.accepted} of {found.drafted} drafted")
        lines.append(str(found.ledger))
        if edge := found.bets.edge + (found.panel.edge if found.panel else 0):
            lines.append(f"{edge} tokens at the edge of a filter, moved across by rounding: left out")
        lines += [f"note: {note}" for note in found.notes]
        lines.append(f"plan {self.digest}" + (f"; again: {self.replay}" if self.replay else ""))
        return "\n  ".join(lines)

    @property
    def subject(self) -> str:
        """What was audited, in words."""
        return f"engine with drafter {self.setting.get('drafter')}, rule {self.setting.get('rule')}"

    def _evidence(self) -> str:
        control = self.findings.control
        return (
            f"p-value {self.pvalue:.2g}, false alarms <= {self.plan.alpha:g}; bets, at any time: "
            f"{self.findings.bets.pvalue:.2g} after {self.samples} tokens; speculation off: {control.pvalue:.2g} "
            f"after {control.tokens}"
        )

    def _panel(self) -> list[str]:
        panel = self.findings.panel
        if panel is None:
            return []
        tests = ", ".join(f"{check.name} {check.pvalue:.2g}" for check in panel.checks(self.plan.levels))
        return [
            f"{panel.draws} draws after {panel.prefixes} repeated prefixes, {panel.samples} tokens in "
            f"{panel.contexts} contexts: p-values {tests}"
        ]

    def answer(self) -> Answer:
        """The common form of audits' answers."""
        found = self.findings
        families = (
            Family(p.fault, p.tv, p.n95, p.detectable, p.bet if p.bet in (PANEL, NOTHING) else "bets")
            for p in found.predictions
        )
        return Answer(
            kind="engine",
            subject=self.subject,
            verdict=self.verdict,
            reason=self.reason,
            alpha=self.plan.alpha,
            plan=asdict(self.plan) | {"setting": self.setting},
            digest=self.digest,
            pvalue=self.pvalue,
            samples=self.samples,
            draws=found.panel.draws if found.panel else 0,
            tv=self.tv,
            power=self.power,
            acceptance=found.acceptance,
            tests=self.checks,
            tracks=found.tracks,
            barrier=self.plan.barrier if found.tracks else 0.0,
            panel=found.bars,
            families=tuple(families),
            ledger=asdict(found.ledger),
            tables=control_table(found.control, found.panel_control, (found.greedy, found.greedy_control)),
            notes=found.notes,
            replay=self.replay,
        )


def control_table(
    bets: Arms | None, panel: PanelResult | None = None, ties: Sequence[NearTies | None] = (None, None)
) -> tuple[Table, ...]:
    """Bets and panel without speculation, for the page; at temperature 0 gaps with it and without."""
    heads, rows = ("what", "tokens", "p-value"), []
    if ties[1] is not None:
        heads = ("what", "tokens", "outcome")
        named = zip(("speculation on", "speculation off"), ties, strict=True)
        rows = [(name, str(each.tokens), str(each)) for name, each in named if each is not None]
    else:
        if bets is not None:
            rows.append(("bets, speculation off", str(bets.tokens), f"{bets.pvalue:.2g}"))
        if panel is not None:
            rows.append(("panel, speculation off", str(panel.samples), f"{panel.pvalue:.2g}"))
    note = "Speculation off is the control: it has to follow the same rows."
    return (Table("Control", note, heads, tuple(rows)),) if rows else ()
