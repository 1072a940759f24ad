"""Every text scored once under each checkpoint, bet on, and compared with what the file tells of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from specproof.audit.rollouts.plan import BETS, STALE, RolloutPlan
from specproof.audit.rollouts.policy import Policy
from specproof.audit.rollouts.stale import STALE_FAULTS, STALE_MIXTURE
from specproof.audit.rollouts.texts import Text
from specproof.audit.rollouts.told import Told, conventions
from specproof.audit.white.emission import UNDRAFTED
from specproof.audit.white.evidence import Mixture
from specproof.audit.white.forcing import Conditions, Scored, rows_along, score
from specproof.audit.white.ledger import Ledger
from specproof.audit.white.near_tie import margin_for
from specproof.audit.white.planner import Planner
from specproof.audit.white.record import Places
from specproof.audit.white.side import Side
from specproof.errors import SpecproofError
from specproof.types import TokenSequence

# Sets the noise inside tokens apart from what an engine may have drawn with: a plain seed is in wide use.
_OWN = 0x726F6C6C
# About how many emissions power is computed over.
_POWER_ROWS = 128


class Checkpoints(NamedTuple):
    """What rollouts are held against: the policy; a draft model, and an older policy, if there are any."""

    policy: Policy
    draft: Policy | None = None
    stale: Policy | None = None


@dataclass
class Sides:
    """The bets of one audit.

    Attributes:
        bets, ties: tokens above temperature 0, and at it.
        stale: the same tokens with rows of the stale checkpoint beside; None without one.
        planners: what known faults would have meant, by test.
        told: comparisons of log-probabilities, by column and checkpoint.
    """

    bets: Side
    ties: Side
    stale: Side | None
    planners: dict[str, Planner]
    told: dict[tuple[str, str], Told]


def scored(
    texts: Sequence[Text],
    against: Checkpoints,
    plan: RolloutPlan,
    mixtures: dict[str, Mixture],
    ledger: Ledger,
    tell: Callable[[str], None],
) -> Sides:
    """All texts, or as many as it takes to convict."""
    has_stale = STALE in mixtures
    bets = plan.bets(BETS, has_stale)
    sides = Sides(
        Side(bets, ledger, False, mixtures[BETS]),
        Side(bets, ledger, True, mixtures[BETS]),
        Side(plan.bets(STALE, True), ledger, False, STALE_MIXTURE) if has_stale else None,
        {BETS: Planner(bets.alpha, mixtures[BETS])},
        {},
    )
    if has_stale:
        sides.planners[STALE] = Planner(plan.bets(STALE, True).alpha, STALE_MIXTURE, STALE_FAULTS)
    merged = _ends_as_one(texts)
    noise = np.random.default_rng((plan.seed, _OWN))
    stride = max(1, sum(len(text.output) for text in texts) // _POWER_ROWS)
    ahead = 0
    for number, text in enumerate(texts, 1):
        if not text.output:
            continue
        first, ahead = ahead, (ahead - len(text.output)) % stride
        _take(text, against, sides, noise.random(len(text.output)), (first, stride, merged))
        if number % 64 == 0:
            tell(f"{number} texts: log capital {sides.bets.evidence.log_e:+.1f}")
        if sides.bets.evidence.tokens and sides.bets.decided:
            break
    return sides


def _take(text: Text, against: Checkpoints, sides: Sides, noise: Any, how: tuple[int, int, bool]) -> None:
    """Score a text under every checkpoint, once each, and bet on it."""
    first, stride, merged = how
    start, output, greedy = text.start, text.output, text.start.params.temperature == 0
    logits = against.policy.logits(start, output)
    margin = margin_for(sides.bets.ledger.spread)
    drafts = {} if against.draft is None else dict(enumerate(_other(against.draft, text, logits)[1]))
    places = Places(np.full(len(output), UNDRAFTED), drafts, len(drafts))
    portions = score(start, output, logits, Conditions(places, noise, margin))
    _compare(text, "--model", logits, np.concatenate([each.mass for each in portions]), sides)
    if merged:
        portions = [_merged(each, start) for each in portions]
    (sides.ties if greedy else sides.bets).take(text.group, output, portions)
    if not greedy:
        _plan_for(portions, sides.planners[BETS], first, stride)
    if against.stale is None:
        return
    own, rows = _other(against.stale, text, logits)
    _compare(text, "--stale", own, rows[range(len(output)), output].numpy(), sides)
    if greedy or sides.stale is None:
        return
    places = Places(np.full(len(output), UNDRAFTED), dict(enumerate(rows)), len(output))
    portions = score(start, output, logits, Conditions(places, noise, margin))
    portions = [_merged(each, start) for each in portions] if merged else portions
    sides.stale.take(text.group, output, portions)
    _plan_for(portions, sides.planners[STALE], first, stride)


def _other(other: Policy, text: Text, logits: Tensor) -> tuple[Tensor, Tensor]:
    """[n, V] logits and folded rows of another checkpoint along a text."""
    own = other.logits(text.start, text.output)
    if own.shape != logits.shape:
        raise SpecproofError(
            f"--draft-model or --stale has {own.shape[1]} tokens and --model {logits.shape[1]}; give one with the "
            "same tokens"
        )
    return own, rows_along(text.start, text.output, own)


def _compare(text: Text, checkpoint: str, logits: Tensor, mass: Any, sides: Sides) -> None:
    """What the file tells of a text against a checkpoint."""
    columns = {name: getattr(text.read, name) for name in ("logprobs", "raw_logprobs")}
    if not any(columns.values()):
        return
    own = conventions(text.start, text.output, logits, mass)
    for name, told in columns.items():
        if told:
            sides.told.setdefault((name, checkpoint), Told(name, checkpoint)).take(told, own)


def _plan_for(portions: Sequence[Scored], planner: Planner, first: int, stride: int) -> None:
    """Every `stride`-th emission, counted over all texts."""
    for portion in portions:
        planner.add(portion.emissions.some(slice(first, None, stride)))
        first = (first - len(portion.emissions)) % stride


def _ends_as_one(texts: Sequence[Text]) -> bool:
    """Whether some end token was left out where there are several: then nobody can tell them apart."""
    return any(len(t.start.ends) > 1 and len(t.output) > len(t.read.completion_ids) for t in texts)


def _merged(portion: Scored, start: TokenSequence) -> Scored:
    """All end tokens as one, the first."""
    ends = sorted(start.ends)
    if len(ends) < 2:
        return portion
    emissions = portion.emissions
    target, draft = emissions.target.copy(), emissions.draft.copy()
    for rows in (target, draft):
        rows[:, ends[0]] = rows[:, ends].sum(1)
        rows[:, ends[1:]] = 0
    tokens = np.where(np.isin(emissions.tokens, ends), ends[0], emissions.tokens)
    return portion._replace(emissions=replace(emissions, tokens=tokens, target=target, draft=draft))
