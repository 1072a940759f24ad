"""What an audit of a server found, for people and for machines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from specproof.audit.answer import Answer, Check, Family, Judged, Verdict, versions
from specproof.audit.endpoint.plan import ROWS, WAGERS, EndpointPlan
from specproof.audit.endpoint.verdict import Seen
from specproof.audit.white.result import control_table


@dataclass(frozen=True)
class EndpointResult(Judged):
    """Audit of a server.

    Attributes:
        verdict: see `Verdict`.
        reason: of the verdict, in words.
        setting: what was audited.
        plan, digest: what was fixed beforehand, and its hash.
        seen: what was seen.
        texts: of both arms together.
        tokens: with speculation.
        kept: file with every answer.
        replay: a command that runs it again, if there is one.
    """

    verdict: Verdict
    reason: str
    setting: dict[str, Any]
    plan: EndpointPlan
    digest: str
    seen: Seen
    texts: int
    tokens: int
    kept: str = ""
    replay: str = ""

    @property
    def tv(self) -> float | None:
        """Estimated total variation of the law that fits best; None where nothing speaks against 0."""
        return self.seen.tv

    @property
    def samples(self) -> int:
        """Tokens with speculation."""
        return self.tokens

    @property
    def power(self) -> float:
        """Total variation that would have been caught with 95 % power; see `Seen.power`."""
        return self.seen.power

    @property
    def checks(self) -> tuple[Check, ...]:
        """The tests that were made, each with its part of alpha; none at temperature 0."""
        seen, alpha = self.seen, self.plan.alpha
        found = []
        if seen.bets is not None:
            found.append(Check(f"bets on {seen.rows}", seen.bets.pvalue, ROWS * alpha, seen.bets.tokens))
        if seen.looks:
            wagered = float(np.exp(-seen.wager))
            found.append(Check("bets on both arms", wagered, WAGERS * alpha, self.texts))
        for look in seen.looks:
            name = f"permutations, {look.draws} texts a prompt"
            found.append(Check(name, look.test.pvalue, look.level, 2 * look.test.texts))
        return tuple(found)

    @property
    def pvalue(self) -> float:
        """Valid whenever one looks: at most alpha if one of the tests convicts. Of greedy text, 0 or 1."""
        seen = self.seen
        if seen.greedy:
            return float(seen.ties is None or seen.ties.ok)
        return min(1.0, *(check.pvalue * self.plan.alpha / check.level for check in self.checks), 1.0)

    @property
    def acceptance(self) -> float | None:
        """Accepted / drafted tokens; None where the server does not tell."""
        drafts = self.seen.drafts
        return None if drafts is None or not drafts.drafted else drafts.accepted / drafts.drafted

    def __str__(self) -> str:
        seen = self.seen
        lines = [f"{self.verdict.value}: {self.setting['url']}: {self.reason}", *self._evidence()]
        if seen.predictions and self.verdict is not Verdict.BIASED and np.isfinite(self.power):
            lines.append(f"caught with 95 % power: a difference of TV {self.power:.3f}")
        if seen.drafts is not None:
            drafted = f"{seen.drafts.accepted} of {seen.drafts.drafted} drafted tokens accepted"
            lines.append(f"acceptance {self.acceptance or 0:.2f}, {drafted}")
        lines += [f"note: {note}" for note in seen.remarks]
        lines.append(f"plan {self.digest}" + (f"; answers in {self.kept}" if self.kept else ""))
        if self.replay:
            lines.append(f"again: {self.replay}")
        return "\n  ".join(lines)

    def _evidence(self) -> list[str]:
        seen = self.seen
        if seen.greedy:
            lines = [str(seen.ties)] if seen.ties is not None else []
            equal = f"{seen.equal} of {seen.compared} texts equal to one without speculation"
            return lines + ([equal] if seen.compared else [])
        lines = [
            f"p-value {self.pvalue:.2g} after {self.texts} texts ({self.tokens} tokens with speculation), false "
            f"alarms <= {self.plan.alpha:g}"
        ]
        if seen.bets is not None:
            control = "" if seen.control is None else f"; without speculation {seen.control.pvalue:.2g}"
            lines.append(f"against {seen.rows}: p-value {seen.bets.pvalue:.2g}{control}")
        if seen.looks:
            test = seen.looks[-1].test
            lines.append(
                f"with against without: p-value {test.pvalue:.2g} by shuffling {2 * test.texts} texts at "
                f"{test.places} places (Hamming {test.hamming:.2g}), by bets {np.exp(-seen.wager):.2g}"
            )
        return lines

    def answer(self) -> Answer:
        """The common form of audits' answers."""
        seen = self.seen
        ledgers = {
            "drift": seen.drift,
            "among texts without speculation": seen.steady,
            "against --model": seen.ledger,
        }
        return Answer(
            kind="endpoint",
            subject=self.setting["url"],
            verdict=self.verdict,
            reason=self.reason,
            alpha=self.plan.alpha,
            plan=self.plan.described(self.setting),
            digest=self.digest,
            pvalue=self.pvalue,
            samples=self.tokens,
            draws=self.texts,
            tv=self.tv,
            power=self.power,
            acceptance=self.acceptance,
            tests=self.checks,
            families=tuple(Family(p.fault, p.tv, p.n95, p.detectable, p.bet) for p in seen.predictions),
            tracks=seen.tracks,
            barrier=self.plan.wager if seen.bets is None else self.plan.bets.barrier,
            panel=seen.bars,
            ledger={
                f"{name}, {part}": value
                for name, ledger in ledgers.items()
                if ledger.positions
                for part, value in asdict(ledger).items()
            },
            tables=control_table(seen.control, None, (seen.ties, seen.control_ties)),
            notes=(*seen.remarks, *((f"every answer is in {self.kept}",) if self.kept else ())),
            replay=self.replay,
            versions=versions("httpx"),
        )
