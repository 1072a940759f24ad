"""What a request cost and gained; every figure has one definition, given here and in the glossary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from specproof.tree import Tree

# Why a step was without speculation; see the glossary.
NO_DRAFT, LOSES, WAITING = "no draft", "loses", "probing wait"
FAILED, NO_ROOM, MEASURING = "off after a failure", "no room", "measuring"


class Price(NamedTuple):
    """What was to be expected of a step, from what earlier ones took.

    Attributes:
        plain: seconds of a step without a draft in this batch, which would commit one token.
        tokens: expected of this step.
        seconds: expected of this step.
    """

    plain: float
    tokens: float
    seconds: float


class StepRecord(NamedTuple):
    """One step of one request.

    Attributes:
        depths: of the drafted nodes.
        accepted: nodes on the path that verification took.
        kept: tokens committed; at most accepted + 1, fewer where the step was cut.
        budget: nodes that the policy allowed.
        reason: why nothing was drafted, None if something was.
        seconds: of draft, forward and verification, of the whole batch.
        price: None while costs are not known.
        places: see `places`.
    """

    depths: tuple[int, ...]
    accepted: int
    kept: int
    budget: int
    reason: str | None
    seconds: tuple[float, ...]
    price: Price | None = None
    places: tuple[tuple[int, int], ...] = ()


def places(tree: Tree, path: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """For the root and each node of a path: its children, and which of them is next on the path (1 the first).

    0 stands for none: there verification stopped.
    """
    below = [tree.children(node) for node in (-1, *path)]
    return tuple((len(c), c.index(t) + 1 if t >= 0 else 0) for c, t in zip(below, (*path, -1), strict=True))


@dataclass
class Statistics:
    """Counters of one request, or of many added up.

    A step that was cut (end of text, max_tokens) counts only the nodes that could still be used: what was
    never asked for was neither drafted nor accepted. The extra token is never counted as accepted.

    Attributes:
        steps: target forwards that committed at least one token.
        tokens: committed tokens.
        drafted, accepted: nodes proposed, and committed from the draft.
        drafted_at, accepted_at: by depth, 1 for children of the root: steps that drafted a node there, and
            steps that accepted one.
        reached_at: by depth: steps that drafted a node there and accepted one at the depth before.
        offered_by_rank, accepted_by_rank: by a node's place among its siblings, 1 for the first drawn: how often
            one stood there below an accepted node or the root, and how often it was accepted.
        histogram: steps by how many nodes they accepted.
        chosen: steps by how many nodes the policy allowed.
        unspeculated: steps that drafted nothing, by reason.
        draft_seconds, forward_seconds, verify_seconds: wall-clock of the steps this request took part in;
            a step of a batch counts in full for each of its requests, and once in an engine's own total.
        priced_seconds: wall-clock of the steps for which the cost of a plain step was known.
        plain_seconds: what their tokens would have taken without speculation.
        expected_seconds, expected_plain_seconds: the same two as they were expected before each of these steps.
        trace: every step, if asked for.
    """

    steps: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    drafted_at: Counter[int] = field(default_factory=Counter)
    accepted_at: Counter[int] = field(default_factory=Counter)
    reached_at: Counter[int] = field(default_factory=Counter)
    offered_by_rank: Counter[int] = field(default_factory=Counter)
    accepted_by_rank: Counter[int] = field(default_factory=Counter)
    histogram: Counter[int] = field(default_factory=Counter)
    chosen: Counter[int] = field(default_factory=Counter)
    unspeculated: Counter[str] = field(default_factory=Counter)
    draft_seconds: float = 0.0
    forward_seconds: float = 0.0
    verify_seconds: float = 0.0
    priced_seconds: float = 0.0
    plain_seconds: float = 0.0
    expected_seconds: float = 0.0
    expected_plain_seconds: float = 0.0
    trace: list[StepRecord] | None = None

    def add(self, step: StepRecord, share: float = 1.0) -> None:
        """Add one step; `share` of its time, where one statistic adds up all requests of a batch."""
        if self.trace is not None:
            self.trace.append(step)
        self.count(step.depths, step.accepted, step.kept)
        for children, taken in step.places[: step.kept]:
            self.offered_by_rank.update(range(1, children + 1))
            self.accepted_by_rank.update([taken] if taken else [])
        if step.kept:
            self.chosen[step.budget] += 1
            if step.reason is not None:
                self.unspeculated[step.reason] += 1
        draft, forward, verify = step.seconds
        self.draft_seconds += draft * share
        self.forward_seconds += forward * share
        self.verify_seconds += verify * share
        if step.price is not None:
            self.priced_seconds += (draft + forward + verify) * share
            self.plain_seconds += step.price.plain * step.kept * share
            self.expected_seconds += step.price.seconds * share
            self.expected_plain_seconds += step.price.plain * step.price.tokens * share

    def count(self, depths: Iterable[int], accepted: int, kept: int) -> None:
        """Count the nodes and tokens of one step; arguments as in `StepRecord`."""
        if kept == 0:
            return
        asked = [depth for depth in depths if kept > accepted or depth <= kept]
        taken = min(accepted, kept)
        self.steps += 1
        self.tokens += kept
        self.drafted += len(asked)
        self.accepted += taken
        self.histogram[taken] += 1
        deepest = max(asked, default=0)
        self.drafted_at.update(range(1, deepest + 1))
        self.accepted_at.update(range(1, taken + 1))
        self.reached_at.update(range(1, min(deepest, taken + 1) + 1))

    @property
    def tokens_per_forward(self) -> float:
        """Committed tokens per target forward, the extra token included; 0 before the first step."""
        return self.tokens / self.steps if self.steps else 0.0

    @property
    def acceptance(self) -> float:
        """Accepted nodes / drafted nodes; 0 if nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def acceptance_by_depth(self) -> dict[int, float]:
        """For each depth: steps that accepted a node there / steps that drafted one."""
        return {depth: self.accepted_at[depth] / self.drafted_at[depth] for depth in sorted(self.drafted_at)}

    @property
    def conditional_by_depth(self) -> dict[int, float]:
        """The same among steps that accepted a node at the depth before."""
        return {depth: self.accepted_at[depth] / self.reached_at[depth] for depth in sorted(self.reached_at)}

    @property
    def acceptance_by_rank(self) -> dict[int, float]:
        """For each place among siblings: how often the node there was accepted, given that its parent was."""
        return {rank: self.accepted_by_rank[rank] / count for rank, count in sorted(self.offered_by_rank.items())}

    @property
    def seconds(self) -> float:
        """Draft, forward and verify together."""
        return self.draft_seconds + self.forward_seconds + self.verify_seconds

    @property
    def measured_speedup(self) -> float | None:
        """Time that plain decoding would have taken / time taken; None while a plain step's cost is unknown."""
        return self.plain_seconds / self.priced_seconds if self.priced_seconds else None

    @property
    def predicted_speedup(self) -> float | None:
        """The same as it was expected, step by step, from earlier acceptance and costs."""
        return self.expected_plain_seconds / self.expected_seconds if self.expected_seconds else None

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON; the trace only where there is one."""
        values = {name: getattr(self, name) for name in _FIGURES}
        values |= {name: dict(sorted(getattr(self, name).items())) for name in _COUNTERS}
        if self.trace is not None:
            values["trace"] = [
                step._asdict() | {"price": step.price and step.price._asdict()} for step in self.trace
            ]
        return values


_FIGURES = (
    *("steps", "tokens", "tokens_per_forward", "drafted", "accepted", "acceptance"),
    *(
        "acceptance_by_depth",
        "conditional_by_depth",
        "acceptance_by_rank",
        "measured_speedup",
        "predicted_speedup",
    ),
    *("draft_seconds", "forward_seconds", "verify_seconds", "seconds"),
    *("priced_seconds", "plain_seconds", "expected_seconds", "expected_plain_seconds"),
)
_COUNTERS = (
    "drafted_at",
    "accepted_at",
    "reached_at",
    "offered_by_rank",
    "accepted_by_rank",
    "histogram",
    "chosen",
    "unspeculated",
)
