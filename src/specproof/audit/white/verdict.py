"""From what a run showed to one of seven verdicts, and the result that says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from specproof.audit.answer import Verdict
from specproof.audit.white.ledger import ROUNDING, Ledger
from specproof.audit.white.near_tie import NearTies
from specproof.audit.white.plan import Plan
from specproof.audit.white.planner import Prediction


@dataclass(frozen=True)
class Arms:
    """What bets on one run came to.

    Attributes:
        tokens: that were bet on.
        log_e, highest: logarithm of the capital at the end, and at its highest.
        tolerant: the highest of bets that are fair for every law within the ledger; None if not played.
        forbidden: tokens without target mass.
        edge: tokens at the edge of a filter, moved across it by rounding; left out.
        by_arm, by_stratum: highest logarithms, of each alone.
    """

    tokens: int = 0
    log_e: float = 0.0
    highest: float = 0.0
    tolerant: float | None = None
    forbidden: int = 0
    edge: int = 0
    by_arm: dict[str, float] | None = None
    by_stratum: dict[str, float] | None = None

    @property
    def pvalue(self) -> float:
        """Valid at any time: min(1, 1 / highest capital); 0 after a token without mass."""
        return 0.0 if self.forbidden else float(np.exp(-self.highest))

    def convicts(self, barrier: float) -> bool:
        """Whether the law is not the target's."""
        return self.forbidden > 0 or self.highest >= barrier

    def beyond_rounding(self, barrier: float) -> bool:
        """Whether it is not within the ledger of it, either."""
        return self.forbidden > 0 or (self.highest if self.tolerant is None else self.tolerant) >= barrier


@dataclass(frozen=True)
class Findings:
    """Everything that the verdict depends on.

    Attributes:
        bets, control: with speculation, and without.
        ledger: what rounding does.
        drafted, accepted: nodes.
        texts, misended: how many texts there were, and how many did not end where plain decoding ends them.
        tv: of the law that fits best, by `fault`; None if nothing speaks against the target's.
        fault: in words.
        predictions: what known faults would have meant.
        greedy, greedy_control: at temperature 0, in place of the bets.
        notes: failures of requests.
    """

    bets: Arms
    control: Arms
    ledger: Ledger
    drafted: int
    accepted: int
    texts: int = 0
    misended: int = 0
    tv: float | None = None
    fault: str = ""
    predictions: tuple[Prediction, ...] = ()
    greedy: NearTies | None = None
    greedy_control: NearTies | None = None
    notes: tuple[str, ...] = ()

    @property
    def acceptance(self) -> float:
        """Accepted nodes / drafted nodes; 0 if nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def power(self) -> float:
        """Total variation of the smallest fault that would have been caught, of the family that hides best."""
        return max((prediction.detectable for prediction in self.predictions), default=float("inf"))


def decide(found: Findings, plan: Plan) -> tuple[Verdict, str]:
    """The verdict, and its reason in words."""
    baseline = _baseline(found, plan)
    if baseline:
        return Verdict.NO_BASELINE, baseline
    if found.misended:
        return Verdict.BIASED, f"{found.misended} of {found.texts} texts do not end where plain decoding ends them"
    fails = found.greedy.fails if found.greedy else 0
    if fails:
        return (
            Verdict.BIASED,
            f"{fails} tokens at temperature 0 are further from the likeliest than rounding moves",
        )
    if found.bets.convicts(plan.barrier):
        return _convicted(found, plan)
    if found.notes:
        return Verdict.INCONCLUSIVE, found.notes[0]
    if not 0 < found.accepted < found.drafted:
        share = "nothing was drafted" if not found.drafted else f"acceptance was {found.acceptance:.0f}"
        return Verdict.NOT_EXERCISED, f"{share}: accepting and rejecting were not both seen"
    if found.greedy:
        verdict = Verdict.WITHIN_NUMERICS if found.greedy.ties else Verdict.EXACT
        return (
            verdict,
            f"{found.greedy.tokens - found.greedy.ties} of {found.greedy.tokens} tokens are the likeliest",
        )
    if found.power > plan.detect:
        return Verdict.INCONCLUSIVE, (
            f"no fault was seen, but one of TV {plan.detect:g} could have been missed: give more tokens"
        )
    return Verdict.LOSSLESS, "no fault was seen"


def _baseline(found: Findings, plan: Plan) -> str:
    """Why there is nothing to compare with; empty if there is."""
    if found.ledger.largest > ROUNDING:
        return f"the target's own rows differ by TV {found.ledger.largest:.2g} between two ways of running it"
    if found.greedy_control is not None and not found.greedy_control.ok:
        return "without speculation, tokens at temperature 0 are not the reference's"
    if found.control.beyond_rounding(plan.barrier):
        return "without speculation the tokens do not follow the reference's rows: is it the same model?"
    return ""


def _convicted(found: Findings, plan: Plan) -> tuple[Verdict, str]:
    if found.bets.beyond_rounding(plan.barrier):
        if found.bets.forbidden:
            return Verdict.BIASED, f"{found.bets.forbidden} tokens came out that have probability 0"
        return Verdict.BIASED, f"best fit: {found.fault}, TV about {found.tv or 0:.3f}"
    if (found.tv or 0) <= 2 * found.ledger.largest:
        return (
            Verdict.WITHIN_NUMERICS,
            f"the rows are off by TV {found.tv or 0:.1e}, no more than rounding moves them",
        )
    return Verdict.INCONCLUSIVE, (
        f"tokens are off ({found.fault}, TV about {found.tv or 0:.3f}), but not yet by more than rounding could be"
    )


@dataclass(frozen=True)
class WhiteResult:
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
    def ok(self) -> bool:
        """Exact, lossless, or lossless within numerics."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """0 lossless, 1 biased, 3 no answer."""
        return self.verdict.exit_code

    @property
    def tv(self) -> float | None:
        """Estimated total variation a token of the law that fits best; None where nothing speaks against 0."""
        return self.findings.tv

    @property
    def pvalue(self) -> float:
        """Valid whenever one looks; of greedy text, 0 or 1."""
        greedy = self.findings.greedy
        return self.findings.bets.pvalue if greedy is None else float(greedy.ok)

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
        what = f"drafter {self.setting.get('drafter')}, rule {self.setting.get('rule')}"
        lines = [f"{self.verdict.value}: engine with {what}: {self.reason}"]
        lines.append(self._evidence() if found.greedy is None else str(found.greedy))
        if found.predictions and self.verdict is not Verdict.BIASED:
            hidden = max(found.predictions, key=lambda prediction: prediction.detectable)
            lines.append(f"known faults of TV {self.power:.3f} are caught with 95 % power (least: {hidden.fault})")
        lines.append(f"acceptance {found.acceptance:.2f}, {found.accepted} of {found.drafted} drafted")
        lines.append(str(found.ledger))
        if found.bets.edge:
            lines.append(f"{found.bets.edge} tokens at the edge of a filter, moved across by rounding: left out")
        lines += [f"note: {note}" for note in found.notes]
        lines.append(f"plan {self.digest}" + (f"; again: {self.replay}" if self.replay else ""))
        return "\n  ".join(lines)

    def _evidence(self) -> str:
        control = self.findings.control
        return (
            f"p-value {self.pvalue:.2g} after {self.samples} tokens, at any time, false alarms <= "
            f"{self.plan.alpha:g}; speculation off: {control.pvalue:.2g} after {control.tokens}"
        )
