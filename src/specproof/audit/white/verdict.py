"""From what a run showed to one of seven verdicts, and its reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specproof.audit.answer import Bars, Track, Verdict
from specproof.audit.white.draws import PanelResult
from specproof.audit.white.ledger import ROUNDING, Ledger
from specproof.audit.white.near_tie import NearTies
from specproof.audit.white.plan import PANEL, Plan
from specproof.audit.white.planner import NOTHING, Prediction


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
        panel, panel_control: draws after repeated prefixes with speculation, and, after an alarm, without.
        tracks: capital over tokens, for a picture.
        bars: what came out after each prefix against its row, for a picture.
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
    panel: PanelResult | None = None
    panel_control: PanelResult | None = None
    tracks: tuple[Track, ...] = ()
    bars: tuple[Bars, ...] = ()

    @property
    def acceptance(self) -> float:
        """Accepted nodes / drafted nodes; 0 if nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def power(self) -> float:
        """Total variation of the smallest fault that would have been caught, of the family that hides best."""
        return max((prediction.detectable for prediction in self.predictions), default=float("inf"))


def _more(found: Findings, plan: Plan) -> str:
    """What would show the fault that hides best."""
    hidden = max(found.predictions, key=lambda each: each.detectable, default=None)
    if hidden is None or hidden.bet not in (PANEL, NOTHING):
        return "give more tokens"
    if hidden.bet == NOTHING:
        return f"nothing here sees {hidden.fault}: give more draws after repeated prefixes, or a draft model"
    draws = int(np.ceil(plan.draws * (hidden.detectable / plan.detect) ** 2))
    return f"{hidden.fault}, takes {draws:,} draws after each repeated prefix"


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
    panel = found.panel is not None and found.panel.convicts(plan.levels)
    if panel or found.bets.convicts(plan.barrier):
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
        missed = f"no fault was seen, but one of TV {plan.detect:g} could have been missed"
        return Verdict.INCONCLUSIVE, f"{missed}: {_more(found, plan)}"
    return Verdict.LOSSLESS, "no fault was seen"


def _baseline(found: Findings, plan: Plan) -> str:
    """Why there is nothing to compare with; empty if there is."""
    if found.ledger.largest > ROUNDING:
        return f"the target's own rows differ by TV {found.ledger.largest:.2g} between two ways of running it"
    if found.greedy_control is not None and not found.greedy_control.ok:
        return "without speculation, tokens at temperature 0 are not the reference's"
    if found.control.beyond_rounding(plan.barrier):
        return "without speculation the tokens do not follow the reference's rows: is it the same model?"
    if found.panel_control is not None and found.panel_control.beyond_rounding(plan.levels):
        return "draws after repeated prefixes do not follow the reference's rows without speculation, either"
    return ""


def _convicted(found: Findings, plan: Plan) -> tuple[Verdict, str]:
    panel = found.panel is not None and found.panel.beyond_rounding(plan.levels)
    if panel or found.bets.beyond_rounding(plan.barrier):
        forbidden = found.bets.forbidden + (found.panel.forbidden if found.panel else 0)
        if forbidden:
            return Verdict.BIASED, f"{forbidden} tokens came out that have probability 0"
        where = "" if found.bets.convicts(plan.barrier) else "draws after repeated prefixes; "
        return Verdict.BIASED, f"{where}best fit: {found.fault}, TV about {found.tv or 0:.3f}"
    if (found.tv or 0) <= 2 * found.ledger.largest:
        return (
            Verdict.WITHIN_NUMERICS,
            f"the rows are off by TV {found.tv or 0:.1e}, no more than rounding moves them",
        )
    return Verdict.INCONCLUSIVE, (
        f"tokens are off ({found.fault}, TV about {found.tv or 0:.3f}), but not yet by more than rounding could be"
    )
