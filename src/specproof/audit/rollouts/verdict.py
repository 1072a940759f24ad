"""From what rollouts showed to a verdict, and its reason."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from specproof.audit.answer import Track, Verdict
from specproof.audit.rollouts.plan import ANY, BETS, STALE, RolloutPlan
from specproof.audit.rollouts.told import Off
from specproof.audit.white.ledger import Ledger
from specproof.audit.white.near_tie import NearTies
from specproof.audit.white.planner import Prediction
from specproof.audit.white.verdict import Arms


@dataclass(frozen=True)
class Seen:
    """Everything that the verdict depends on.

    Attributes:
        texts, tokens: how many were looked at, the end tokens that nobody wrote down included.
        bets, stale: of tokens at temperatures above 0, against the policy's rows; the second with the rows of
            --stale beside them, None without it.
        ties: of tokens at temperature 0.
        overrun: texts that go on after their end.
        ledger: what rounding does.
        offs: of every column and checkpoint, conventions by distance, nearest first.
        log_ratio: lowest, last and highest value of the sum of told - own log-probabilities; None if not told.
        fault, tv: the best fit, after a conviction.
        predictions: what known faults would have meant.
        speculated: whether the engine speculated, or may have; with_draft: whether there were rows of a draft.
        drafted, accepted: tokens, if the file says.
        notes, tracks: for the report.
    """

    texts: int
    tokens: int
    bets: Arms
    stale: Arms | None = None
    ties: NearTies | None = None
    overrun: int = 0
    ledger: Ledger = field(default_factory=Ledger.empty)
    offs: dict[tuple[str, str], list[Off]] = field(default_factory=dict)
    log_ratio: tuple[float, float, float] | None = None
    fault: str = ""
    tv: float | None = None
    predictions: tuple[Prediction, ...] = ()
    speculated: bool = False
    with_draft: bool = False
    drafted: int | None = None
    accepted: int | None = None
    notes: tuple[str, ...] = ()
    tracks: tuple[Track, ...] = ()

    @property
    def power(self) -> float:
        """Total variation of the smallest fault that would have been caught, of the family that hides best."""
        return max((each.detectable for each in self.predictions), default=float("inf"))

    def nearest(self, column: str, checkpoint: str) -> Off | None:
        """The convention that a column is nearest to."""
        found = self.offs.get((column, checkpoint))
        return found[0] if found else None


def convicts(seen: Seen, plan: RolloutPlan, *, beyond_rounding: bool) -> str:
    """The name of the test that convicts, of two the clearer one; empty if none does."""
    found = {}
    for name, arms in ((BETS, seen.bets), (STALE, seen.stale)):
        if arms is None:
            continue
        barrier = plan.bets(name, seen.stale is not None).barrier
        if arms.beyond_rounding(barrier) if beyond_rounding else arms.convicts(barrier):
            found[name] = arms.highest - barrier
    return max(found, key=lambda name: found[name]) if found else ""


def decide(seen: Seen, plan: RolloutPlan) -> tuple[Verdict, str]:
    """The verdict, and its reason in words."""
    if biased := _told_stale(seen) or _tokens_biased(seen, plan) or _told_biased(seen, plan):
        return Verdict.BIASED, biased
    if convicts(seen, plan, beyond_rounding=False):
        if (seen.tv or 0) <= 2 * seen.ledger.largest:
            return Verdict.WITHIN_NUMERICS, f"tokens are off by TV {seen.tv or 0:.1e}, no more than rounding moves"
        return Verdict.INCONCLUSIVE, (
            f"tokens are off ({seen.fault}, TV about {seen.tv or 0:.3f}), but not by more than rounding could be"
        )
    if seen.bets.tokens and (short := _short(seen, plan)):
        return Verdict.INCONCLUSIVE, short
    if not seen.tokens:
        return Verdict.INCONCLUSIVE, "no tokens: all texts are empty"
    ties, near = seen.ties is not None and seen.ties.ties > 0, _merely_near(seen)
    if not seen.bets.tokens and seen.ties is not None:
        right = f"{seen.ties.tokens - seen.ties.ties} of {seen.ties.tokens} tokens are the likeliest"
        return (Verdict.WITHIN_NUMERICS if ties or near else Verdict.EXACT), right
    if ties or near:
        return Verdict.WITHIN_NUMERICS, near or "no fault was seen but near-ties at temperature 0"
    return Verdict.LOSSLESS, "no fault was seen"


def _tokens_biased(seen: Seen, plan: RolloutPlan) -> str:
    if seen.overrun:
        return (
            f"{seen.overrun} of {seen.texts} texts go on after a token that ends them (padding has to be left out)"
        )
    if forbidden := seen.bets.forbidden:
        stale = convicts(seen, plan, beyond_rounding=True) == STALE
        return f"{forbidden} tokens came out that have probability 0 under the stated parameters" + (
            f"; best fit: {seen.fault}, TV about {seen.tv or 0:.3f}" if stale else ""
        )
    if seen.ties is not None and not seen.ties.ok:
        return (
            f"{seen.ties.fails} tokens at temperature 0 are further from the likeliest than rounding moves, by up "
            f"to {seen.ties.worst:.2g}"
        )
    if convicts(seen, plan, beyond_rounding=True):
        return f"best fit: {seen.fault}, TV about {seen.tv or 0:.3f}"
    return ""


def _told_stale(seen: Seen) -> str:
    """Whose the log-probabilities are, if they are the stale checkpoint's; empty if not."""
    for column in ("logprobs", "raw_logprobs"):
        best, old = seen.nearest(column, "--model"), seen.nearest(column, "--stale")
        if best is not None and old is not None and not best.same and old.close and old.mean < best.mean / 3:
            return (
                f"{column} are those of --stale ({old.convention}, off by {old.mean:.2g} nats a token; from "
                f"--model by {best.mean:.2g})"
            )
    return ""


def _told_biased(seen: Seen, plan: RolloutPlan) -> str:
    """What is wrong with the log-probabilities; empty if nothing is, or none are told."""
    for column in ("logprobs", "raw_logprobs"):
        best = seen.nearest(column, "--model")
        if best is None:
            continue
        if not best.close:
            return (
                f"{column} follow no known convention of --model: {_nearest(best)}. {_whose(seen, plan)}".rstrip()
            )
        if column == "logprobs" and plan.logprobs != ANY and plan.logprobs not in best.convention.split(" = "):
            return f"logprobs are {best.convention}, not {plan.logprobs} as stated"
    return ""


def _nearest(off: Off) -> str:
    return f"the nearest is {off.convention}, off by {off.mean:.2g} nats a token, {off.shift:+.2g} on average"


def _whose(seen: Seen, plan: RolloutPlan) -> str:
    """Whether the tokens follow the told law or the model's, as far as that can be said."""
    if seen.log_ratio is None:
        return ""
    lowest, _, highest = seen.log_ratio
    # Each sum is the logarithm of a fair game's capital if the tokens follow the other law.
    decided = float(np.log(2 / plan.alpha))
    if highest >= decided and lowest > -decided:
        return "If they are a policy's, it and not --model wrote the tokens: another checkpoint, or a stale one"
    if lowest <= -decided and highest < decided:
        return "The tokens rather follow --model: the numbers were computed by something else"
    return "Whether the tokens follow them or --model cannot be told from so few"


def _short(seen: Seen, plan: RolloutPlan) -> str:
    """Why LOSSLESS would be too much to say; empty if it would not."""
    if seen.power > plan.detect:
        return (
            f"no fault was seen, but one of TV {plan.detect:g} could have been missed (smallest "
            f"{seen.power:.2g}): give more rollouts"
        )
    if seen.speculated and not seen.with_draft:
        return (
            "no fault was seen, but those of a verification rule hardly show without rows of the draft: give "
            "--draft-model, or --plain if the engine did not speculate"
        )
    return ""


def _merely_near(seen: Seen) -> str:
    """What is said of log-probabilities that are near and not equal; empty if there are none."""
    for (column, checkpoint), offs in seen.offs.items():
        if checkpoint == "--model" and not offs[0].same:
            return (
                f"no fault was seen; {column} are {offs[0].convention}, off by {offs[0].mean:.2g} nats a token, "
                "as by half-precision arithmetic or a policy hardly older"
            )
    return ""
