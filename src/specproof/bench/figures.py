"""From runs to figures: each is defined in the glossary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from specproof.bench.measure import Run
from specproof.bench.model import StepCosts, added, best_fixed, predicted_speedup
from specproof.bench.ways import BASE
from specproof.engine.advice import Advice
from specproof.engine.stats import StepRecord

MEAN = "mean"


@dataclass(frozen=True)
class Figures:
    """One way at one temperature, for one kind of prompts or the mean of all kinds; see the glossary.

    Speeds are None where every text ended in its first step. The mean is that of the kinds, each weighing the
    same, but acceptance by depth, break-even and best length are those of all steps together.
    """

    temperature: float
    way: str
    kind: str
    rule: str
    texts: int
    tokens: int
    tokens_per_second: float | None
    request_tokens_per_second: float | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    request_speedup: float | None
    predicted_speedup: float | None
    tokens_per_forward: float
    acceptance: float
    drafting: float
    acceptance_by_depth: dict[int, float]
    conditional_by_depth: dict[int, float]
    drafted_at: dict[int, int]
    break_even: float | None
    best: Advice | None

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self) | {"best": None if self.best is None else self.best._asdict()}


@dataclass(frozen=True)
class Group:
    """Runs of one way at one temperature, plain ones of the same turns, and probes of this way.

    What is accepted is counted in runs and probes, what is fast in runs alone.
    """

    runs: Sequence[Run]
    plain: Sequence[Run]
    probes: Sequence[Run]
    costs: StepCosts
    chains: bool

    def of(self, prompts: set[int]) -> Group:
        """Those of some prompts."""
        runs, plain, probes = (
            [run for run in runs if run.place.prompt in prompts] for runs in (self.runs, self.plain, self.probes)
        )
        return Group(runs, plain, probes, self.costs, self.chains)


def figures(group: Group, kinds: Sequence[str]) -> list[Figures]:
    """For each kind of prompt in the order they come, and the mean of them last.

    Args:
        group: the runs.
        kinds: of each prompt, by its number.
    """
    by_kind = {kind: {i for i, other in enumerate(kinds) if other == kind} for kind in dict.fromkeys(kinds)}
    each = [_of_kind(kind, group.of(prompts)) for kind, prompts in by_kind.items()]
    return [*each, _mean(each, group)]


def steps_of(runs: Sequence[Run]) -> list[StepRecord]:
    """Steps after the first of each text, which read the prompt as well."""
    return [step for run in runs for step in run.trace[1:]]


def _of_kind(kind: str, group: Group) -> Figures:
    stats, later = added(step for run in group.runs for step in run.trace), steps_of(group.runs)
    spans = [_ratio(_decoding, group, turn) for turn in sorted({run.place.turn for run in group.runs})]
    known = [span for span in spans if span is not None]
    per_token, per_request = _seconds(_decoding, group.runs), _seconds(_whole, group.runs)
    place = group.runs[0].place
    return Figures(
        temperature=place.temperature,
        way=place.way,
        kind=kind,
        rule=group.runs[0].rule,
        texts=len(group.runs),
        tokens=stats.tokens,
        tokens_per_second=None if per_token is None else 1 / per_token,
        request_tokens_per_second=None if per_request is None else 1 / per_request,
        speedup=_ratio(_decoding, group),
        speedup_low=min(known, default=None),
        speedup_high=max(known, default=None),
        request_speedup=_ratio(_whole, group),
        predicted_speedup=predicted_speedup(later, added(later), group.costs),
        tokens_per_forward=stats.tokens_per_forward,
        acceptance=stats.acceptance,
        drafting=stats.drafted_at[1] / stats.steps,
        **_by_depth(group),
    )


def _mean(each: Sequence[Figures], group: Group) -> Figures:
    """Of the kinds; a speed that one of them lacks is left out of its mean."""

    def mean(name: str) -> Any:
        values = [value for one in each if (value := getattr(one, name)) is not None]
        return fmean(values) if values else None

    sums = {name: sum(getattr(one, name) for one in each) for name in ("texts", "tokens")}
    means = {name: mean(name) for name in _MEANS}
    first = each[0]
    return Figures(
        temperature=first.temperature,
        way=first.way,
        kind=MEAN,
        rule=first.rule,
        **sums,
        **means,
        **_by_depth(group),
    )


# What the mean over kinds is taken of, one by one.
_MEANS = (
    *("tokens_per_second", "request_tokens_per_second", "speedup", "speedup_low", "speedup_high"),
    *("request_speedup", "predicted_speedup", "tokens_per_forward", "acceptance", "drafting"),
)


def _by_depth(group: Group) -> dict[str, Any]:
    plain = group.runs[0].place.way == BASE
    stats = added(step for run in (*group.runs, *group.probes) for step in run.trace)
    return {
        "acceptance_by_depth": stats.acceptance_by_depth,
        "conditional_by_depth": stats.conditional_by_depth,
        "drafted_at": dict(sorted(stats.drafted_at.items())),
        "break_even": None if plain else group.costs.break_even,
        "best": None if plain or not group.chains else best_fixed(steps_of(group.probes), stats, group.costs),
    }


def _decoding(run: Run) -> float | None:
    """Seconds of a token after the first step; None if there is none."""
    return run.seconds / run.decoded if run.decoded else None


def _whole(run: Run) -> float | None:
    """Seconds of a token, the prompt's reading included."""
    return (run.prompt_seconds + run.seconds) / len(run.tokens)


def _seconds(cost: Callable[[Run], float | None], runs: Sequence[Run], turn: int | None = None) -> float | None:
    """Mean over prompts of a prompt's median over turns."""
    each = _by_prompt(cost, runs, turn)
    return fmean(each.values()) if each else None


def _ratio(cost: Callable[[Run], float | None], group: Group, turn: int | None = None) -> float | None:
    """Plain seconds over seconds, over the prompts that have both."""
    mine, plain = _by_prompt(cost, group.runs, turn), _by_prompt(cost, group.plain, turn)
    both = mine.keys() & plain.keys()
    return fmean(plain[prompt] for prompt in both) / fmean(mine[prompt] for prompt in both) if both else None


def _by_prompt(cost: Callable[[Run], float | None], runs: Sequence[Run], turn: int | None) -> Mapping[int, float]:
    found: dict[int, list[float]] = {}
    for run in runs:
        value = cost(run)
        if value is not None and turn in (None, run.place.turn):
            found.setdefault(run.place.prompt, []).append(value)
    return {prompt: median(values) for prompt, values in found.items()}
