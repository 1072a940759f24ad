"""Audit of rollouts: read, score each text once, bet, compare what is told, answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from specproof.audit.rollouts.plan import BETS, STALE, RolloutPlan
from specproof.audit.rollouts.policy import Policy, goes_on
from specproof.audit.rollouts.read import Rollout, Rollouts
from specproof.audit.rollouts.result import RolloutResult
from specproof.audit.rollouts.scoring import Checkpoints, Sides, scored
from specproof.audit.rollouts.stale import STALE_MIXTURE
from specproof.audit.rollouts.texts import Text, texts_of
from specproof.audit.rollouts.verdict import Seen, convicts, decide
from specproof.audit.white.evidence import Mixture
from specproof.audit.white.fit import best_fit
from specproof.audit.white.ledger import Ledger, measure
from specproof.audit.white.picture import tracks
from specproof.audit.white.plan import digest
from specproof.types import SamplingParams

# Texts on which rounding is measured.
_LEDGER_TEXTS = 4


def audit_rollouts(
    rollouts: Rollouts,
    against: Checkpoints,
    plan: RolloutPlan | None = None,
    *,
    params: SamplingParams | None = None,
    announce: Callable[[str], None] | None = None,
    replay: str = "",
) -> RolloutResult:
    """Audit texts by their tokens and log-probabilities.

    Args:
        rollouts: as `read_rollouts` gives them: all that the engine wrote, none left out for what they say.
        against: the policy that they are said to come from, and what else helps to tell.
        plan: sizes and rates.
        params: sampling parameters of all texts, in place of the file's.
        announce: told the plan's hash before the first token is scored, and how it goes.
        replay: command for the report.

    Raises:
        SpecproofError: parameters that are missing or not known, texts of several versions, tokens that the model
            does not have.
    """
    plan, tell = plan or RolloutPlan(), announce or (lambda _: None)
    texts = texts_of(rollouts, against.policy, params, plan)
    mixtures = {BETS: Mixture.unplaced(against.draft is not None)}
    if against.stale is not None:
        mixtures[STALE] = STALE_MIXTURE
    setting = _setting(rollouts, texts, against)
    described = digest(plan.described(mixtures, setting))
    tell(f"plan {described}: {len(texts)} texts, {sum(len(t.output) for t in texts)} tokens, alpha {plan.alpha:g}")
    ledger = _ledger(texts, against.policy)
    sides = scored(texts, against, plan, mixtures, ledger, tell)
    seen = _seen(rollouts, texts, against, plan, sides, ledger)
    verdict, reason = decide(seen, plan)
    return RolloutResult(verdict, reason, setting, plan, described, seen, replay)


def _setting(rollouts: Rollouts, texts: Sequence[Text], against: Checkpoints) -> dict[str, Any]:
    """What is audited, for the plan's hash and the report."""
    whole = sha256(repr([(t.read.prompt_ids, t.read.completion_ids) for t in texts]).encode()).hexdigest()[:16]
    return {
        "texts": f"{len(texts)} of {len(rollouts.texts)}, {whole}",
        "params": sorted({repr(text.start.params) for text in texts}),
        "draft model": against.draft is not None,
        "stale checkpoint": against.stale is not None,
    }


def _ledger(texts: Sequence[Text], policy: Policy) -> Ledger:
    fresh = policy.fresh()
    some = [(text.start, text.output) for text in texts if len(text.output) > 1][:_LEDGER_TEXTS]
    return Ledger.empty() if fresh is None or not some else measure(fresh, policy.reference, some)


def _seen(
    rollouts: Rollouts,
    texts: Sequence[Text],
    against: Checkpoints,
    plan: RolloutPlan,
    sides: Sides,
    ledger: Ledger,
) -> Seen:
    """Everything that was seen."""
    stale = sides.stale.arms() if sides.stale is not None else None
    planner = sides.planners[BETS]
    model = sides.told.get(("logprobs", "--model"))
    drafted, accepted = (
        sum(counts) if (counts := [c for t in texts if (c := getattr(t.read, name)) is not None]) else None
        for name in ("drafted", "accepted")
    )
    seen = Seen(
        texts=len(texts),
        tokens=sides.bets.tokens + sides.ties.tokens,
        bets=sides.bets.arms(),
        stale=stale,
        ties=sides.ties.greedy(),
        overrun=sum(goes_on(text.output, text.start) for text in texts),
        ledger=ledger,
        offs={key: offs for key, told in sides.told.items() if (offs := told.offs())},
        log_ratio=None if model is None else (model.lowest, model.log_ratio, model.highest),
        predictions=planner.predictions(sides.bets.tokens) if planner.seen else (),
        speculated=not plan.plain and any(_speculated(text.read) for text in texts),
        with_draft=against.draft is not None,
        drafted=drafted,
        accepted=accepted,
        notes=_notes(rollouts, texts, sides),
        tracks=tracks(sides.bets.evidence) if sides.bets.evidence.tokens else (),
    )
    name = convicts(seen, plan, beyond_rounding=True) or convicts(seen, plan, beyond_rounding=False)
    if not name:
        return seen
    side = sides.bets if name == BETS or sides.stale is None else sides.stale
    tv, fault = best_fit(side.evidence, sides.planners[name])
    return replace(seen, fault=fault, tv=tv)


def _speculated(text: Rollout) -> bool:
    """Whether an engine speculated, or may have."""
    if text.drafted is not None:
        return text.drafted > 0
    return text.drafter != "none"


def _notes(rollouts: Rollouts, texts: Sequence[Text], sides: Sides) -> tuple[str, ...]:
    """What the report should say beside."""
    found = []
    if rollouts.unread:
        found.append(f"columns that say nothing here: {', '.join(rollouts.unread)}")
    added = sum(len(text.output) > len(text.read.completion_ids) for text in texts)
    if added:
        found.append(
            f"{added} texts ended at an end token that is not in completion_ids; it was scored all the same"
        )
    if cut := sum(bool(text.read.updates) for text in texts):
        found.append(f"{cut} texts got new weights on the way; what came after them was left out")
    if lossy := sum(text.read.lossless is False for text in texts):
        found.append(f"{lossy} texts were verified by a lossy rule, by the file's own word")
    if edge := sides.bets.edge:
        found.append(f"{edge} tokens at the edge of a filter, moved across by rounding: left out")
    if not sides.told:
        found.append("the file tells no log-probabilities")
    for (column, checkpoint), told in sides.told.items():
        if checkpoint == "--model" and (offs := told.offs()) and offs[0].convention == "scaled":
            found.append(f"{column} are of no law (see scaled): no ratio of them is an importance weight")
    return tuple(found)
