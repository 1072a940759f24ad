"""What an audit of a server found, for people and for machines."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from specproof.audit.endpoint.plan import ROWS, WAGERS, EndpointPlan
from specproof.audit.endpoint.verdict import Seen
from specproof.audit.white.verdict import Verdict


@dataclass(frozen=True)
class EndpointResult:
    """Audit of a server.

    Attributes:
        verdict: see `Verdict`.
        reason: of the verdict, in words.
        setting: what was audited, and with which versions.
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
    def ok(self) -> bool:
        """Exact, lossless, or lossless within numerics."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """0 lossless, 1 biased, 3 no answer."""
        return self.verdict.exit_code

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
    def pvalue(self) -> float:
        """Valid whenever one looks; each test counts by its part of alpha. Of greedy text, 0 or 1."""
        seen, alpha = self.seen, self.plan.alpha
        if seen.greedy:
            return float(seen.ties is None or seen.ties.ok)
        found = [1.0, float(np.exp(-seen.wager)) / WAGERS]
        found += [look.test.pvalue * alpha / look.level for look in seen.looks]
        if seen.bets is not None:
            found.append(seen.bets.pvalue / ROWS)
        return min(found)

    def __str__(self) -> str:
        seen = self.seen
        lines = [f"{self.verdict.value}: {self.setting['url']}: {self.reason}", *self._evidence()]
        if seen.predictions and self.verdict is not Verdict.BIASED and np.isfinite(self.power):
            lines.append(f"caught with 95 % power: a difference of TV {self.power:.3f}")
        drafts = seen.drafts
        if drafts is not None:
            share = drafts.accepted / drafts.drafted if drafts.drafted else 0.0
            lines.append(f"acceptance {share:.2f}, {drafts.accepted} of {drafts.drafted} drafted")
        lines += [f"note: {note}" for note in seen.remarks]
        lines.append(f"plan {self.digest}" + (f"; answers in {self.kept}" if self.kept else ""))
        if self.replay:
            lines.append(f"again: {self.replay}")
        return "\n  ".join(lines)

    def _evidence(self) -> list[str]:
        seen, lines = self.seen, []
        if seen.greedy:
            lines += [str(ties) for ties in (seen.ties,) if ties is not None]
            if seen.compared:
                lines.append(f"{seen.equal} of {seen.compared} texts equal to one without speculation")
            return lines
        lines.append(
            f"p-value {self.pvalue:.2g} after {self.texts} texts ({self.tokens} tokens with speculation), at any "
            f"time, false alarms <= {self.plan.alpha:g}"
        )
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

    def document(self) -> dict[str, Any]:
        """For JSON; an unlimited number is null."""
        document = asdict(self) | {
            "verdict": self.verdict.value,
            "ok": self.ok,
            "tv": self.tv,
            "pvalue": self.pvalue,
            "samples": self.samples,
            "power": self.power,
        }
        finite: dict[str, Any] = json.loads(json.dumps(document, default=str), parse_constant=lambda _: None)
        return finite
