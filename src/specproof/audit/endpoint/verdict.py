"""From what a server showed to one of seven verdicts, and the result that says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from specproof.audit.answer import Bars, Track, Verdict
from specproof.audit.endpoint.families import ANY
from specproof.audit.endpoint.permuted import Permuted
from specproof.audit.endpoint.plan import EndpointPlan
from specproof.audit.white.ledger import ROUNDING, Ledger
from specproof.audit.white.near_tie import NearTies
from specproof.audit.white.planner import Prediction
from specproof.audit.white.verdict import Arms


class Drafted(NamedTuple):
    """What a server told of its drafts while an arm was asked: drafted and accepted tokens."""

    drafted: int
    accepted: int


class Look(NamedTuple):
    """A look of the permutation test: after how many texts a prompt, at which level, and what it came to."""

    draws: int
    level: float
    test: Permuted


@dataclass(frozen=True)
class Seen:
    """Everything that the verdict depends on.

    Attributes:
        greedy: whether temperature was 0.
        controlled: whether there were texts without speculation.
        trusted: the user vouches that speculation is on and off as asked.
        drafts, control_drafts: what the server told of drafts in each arm; None if nothing.
        bets, control: bets on known rows, with speculation and without; None if rows are not known.
        rows: where known rows come from, in words; empty if they are not known.
        with_draft: whether rows of drafts are among them.
        wager: logarithm of the highest capital of bets on two arms.
        looks: of the permutation test so far.
        drift: between reported laws with speculation and without; `steady` among those without.
        ledger: between reported laws and those of a model here.
        ties, control_ties: at temperature 0, of tokens whose law is known.
        compared, equal, unsteady, repeated: at temperature 0: texts with speculation that were compared, those
            equal to one without, prompts whose texts without differ, and prompts asked twice.
        frozen: whether all texts without speculation of a prompt are equal at a temperature above 0.
        fault, tv: the best fit, after a conviction.
        predictions: what known faults would have meant.
        remarks: what the report should say beside.
        tracks, bars: capital over tokens, and first tokens of both arms, for pictures.
    """

    greedy: bool
    controlled: bool
    trusted: bool = False
    drafts: Drafted | None = None
    control_drafts: Drafted | None = None
    bets: Arms | None = None
    control: Arms | None = None
    rows: str = ""
    with_draft: bool = False
    wager: float = 0.0
    looks: tuple[Look, ...] = ()
    drift: Ledger = field(default_factory=Ledger.empty)
    steady: Ledger = field(default_factory=Ledger.empty)
    ledger: Ledger = field(default_factory=Ledger.empty)
    ties: NearTies | None = None
    control_ties: NearTies | None = None
    compared: int = 0
    equal: int = 0
    unsteady: int = 0
    repeated: int = 0
    frozen: bool = False
    fault: str = ""
    tv: float | None = None
    predictions: tuple[Prediction, ...] = ()
    remarks: tuple[str, ...] = ()
    tracks: tuple[Track, ...] = ()
    bars: tuple[Bars, ...] = ()

    @property
    def ignored(self) -> bool:
        """Whether the server drafted when it was asked not to."""
        return not self.trusted and self.control_drafts is not None and self.control_drafts.drafted > 0

    @property
    def power(self) -> float:
        """Total variation of the smallest fault that would have been caught, in the family that hides best.

        The comparison of both arms speaks of any difference; bets on known rows of known faults only, and they
        count for all where draft rows were known.
        """
        whole = [p.detectable for p in self.predictions if p.fault == ANY]
        named = [p.detectable for p in self.predictions if p.fault != ANY and p.bet != "permutations"]
        if self.bets is not None and self.with_draft and named:
            whole.append(max(named))
        return min(whole, default=float("inf"))


def convicted(seen: Seen, plan: EndpointPlan) -> bool:
    """Whether the law with speculation is not what it should be."""
    by_rows = seen.bets is not None and seen.bets.beyond_rounding(plan.bets.barrier)
    by_shuffles = any(look.test.pvalue <= look.level for look in seen.looks)
    wrong = seen.ties is not None and not seen.ties.ok
    return by_rows or by_shuffles or wrong or seen.wager >= plan.wager


def decide(seen: Seen, plan: EndpointPlan) -> tuple[Verdict, str]:
    """The verdict, and its reason in words."""
    if seen.ignored and not convicted(seen, plan):
        assert seen.control_drafts is not None
        return Verdict.NOT_EXERCISED, (
            f"{seen.control_drafts.drafted} tokens were drafted without speculation, too: the switch (--off) does "
            "nothing"
        )
    if not seen.ignored and (baseline := _baseline(seen, plan)):
        return Verdict.NO_BASELINE, baseline
    if convicted(seen, plan):
        return Verdict.BIASED, _why(seen, plan)
    if seen.drift.largest > ROUNDING:
        return Verdict.BIASED, (
            f"the laws reported with speculation are off by TV {seen.drift.largest:.2g} from those without"
        )
    if (idle := _idle(seen)) is not None:
        return Verdict.NOT_EXERCISED, idle
    return _greedy(seen) if seen.greedy else _sampled(seen, plan)


def _baseline(seen: Seen, plan: EndpointPlan) -> str:
    """Why there is nothing to compare with; empty if there is."""
    if seen.ledger.largest > ROUNDING:
        return f"the laws that are reported are off by TV {seen.ledger.largest:.2g} from those of --model"
    if seen.steady.largest > ROUNDING:
        return f"the laws reported without speculation differ among themselves by TV {seen.steady.largest:.2g}"
    if seen.control_ties is not None and not seen.control_ties.ok:
        return (
            f"{seen.control_ties.fails} of {seen.control_ties.tokens} tokens without speculation are not the "
            f"likeliest at temperature 0, by up to {seen.control_ties.worst:.2g}"
        )
    if seen.unsteady and seen.control_ties is None:
        return (
            f"texts without speculation differ at temperature 0, after {seen.unsteady} of {seen.repeated} prompts"
        )
    if seen.control is not None and seen.control.beyond_rounding(plan.bets.barrier):
        return f"without speculation the tokens do not follow {seen.rows} either"
    if seen.frozen:
        return "without speculation all texts of a prompt are equal at a temperature above 0"
    return ""


def _why(seen: Seen, plan: EndpointPlan) -> str:
    """The reason of a conviction."""
    alone = "" if seen.controlled and not seen.ignored else " (there is no run without speculation beside it)"
    if seen.ties is not None and not seen.ties.ok:
        return (
            f"{seen.ties.fails} tokens at temperature 0 are further from the likeliest than rounding moves{alone}"
        )
    if seen.bets is not None and seen.bets.forbidden:
        return f"{seen.bets.forbidden} tokens came out that have probability 0{alone}"
    if seen.bets is not None and seen.bets.beyond_rounding(plan.bets.barrier):
        return f"best fit: {seen.fault}, TV about {seen.tv or 0:.3f}{alone}"
    return f"texts with speculation and without differ: {seen.fault}, TV about {seen.tv or 0:.3f} a place"


def _idle(seen: Seen) -> str | None:
    """Why speculation was not put to the test; None if it was."""
    if seen.trusted:
        return None
    if seen.drafts is None:
        return (
            "the server tells nothing of its drafts, in answers or at /metrics; if its log shows that it "
            "speculated, give --trust-switch"
        )
    drafted, accepted = seen.drafts
    if not 0 < accepted < drafted:
        what = "nothing was drafted" if not drafted else f"{accepted} of {drafted} drafted tokens were accepted"
        return f"{what}: accepting and rejecting were not both seen"
    return None


def _greedy(seen: Seen) -> tuple[Verdict, str]:
    if seen.ties is not None:
        right = seen.ties.tokens - seen.ties.ties
        verdict = Verdict.WITHIN_NUMERICS if seen.ties.ties else Verdict.EXACT
        return verdict, f"{right} of {seen.ties.tokens} tokens are the likeliest by {seen.rows}"
    if not seen.compared:
        return Verdict.INCONCLUSIVE, "nothing to compare with: give --off, --reference or --model"
    if seen.equal == seen.compared:
        return Verdict.EXACT, f"all {seen.equal} texts are equal to those without speculation"
    return Verdict.INCONCLUSIVE, (
        f"{seen.compared - seen.equal} of {seen.compared} texts part from those without speculation, and nobody "
        "tells whether at a near-tie: give --model, or ask a server that gives logprobs"
    )


def _sampled(seen: Seen, plan: EndpointPlan) -> tuple[Verdict, str]:
    if seen.power <= plan.detect:
        noisy = seen.bets is not None and seen.bets.convicts(plan.bets.barrier)
        if noisy:
            return Verdict.WITHIN_NUMERICS, "tokens are off by no more than rounding moves them"
        return Verdict.LOSSLESS, "no difference was seen"
    if not seen.controlled and not seen.with_draft:
        return Verdict.INCONCLUSIVE, (
            "no fault was seen, but faults that depend on the draft would not show so: give --off, --reference, "
            "or --model with --draft-model or --draft-lookup"
        )
    return Verdict.INCONCLUSIVE, (
        f"no difference was seen, but one of TV {plan.detect:g} could have been missed (smallest "
        f"{seen.power:.2g}): give more --draws"
    )
