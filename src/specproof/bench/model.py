"""A model of what steps cost and gain, from costs and acceptance that were measured one by one.

It is built from parts: forwards by width, measured by themselves; drafting and verification by nodes, and
acceptance by depth, from the runs. Put together they predict the speed-up of the run, which is then compared with
what the clock said about whole texts; that of drafts of any fixed length; and what acceptance pays for a draft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from specproof.engine.advice import Advice
from specproof.engine.costs import Costs, bucket
from specproof.engine.stats import Statistics, StepRecord

# Steps that must have come to a depth before its acceptance is used to recommend a length.
_ENOUGH = 8


class StepCosts:
    """Seconds of a step by the nodes it drafts.

    Args:
        forwards: seconds of a forward by width.
        steps: of one way, none of which read a prompt; drafting and verification are taken from them.
        plain: steps of plain decoding; what they take besides the forward is added to the cost of a plain step.
    """

    def __init__(
        self, forwards: Mapping[int, float], steps: Sequence[StepRecord], plain: Sequence[StepRecord]
    ) -> None:
        self._forward = Costs(lambda rows, width: 1 + 0.05 * (width - 1))
        for width, seconds in forwards.items():
            self._forward.measure(1, width, seconds)
        # Drafting takes a time for each node, judging them hardly more than judging none.
        self._draft = _by_nodes(steps, 0, lambda rows, width: float(width))
        self._verify = _by_nodes([*steps, *plain], 2, lambda rows, width: 1.0)
        self._drafted = any(step.depths for step in steps)
        self._idle = median(step.seconds[0] for step in plain) if plain else 0.0

    @property
    def plain(self) -> float:
        """Seconds of a step of plain decoding."""
        return self._idle + self._at(self._forward, 1) + self._at(self._verify, 1)

    def step(self, nodes: int) -> float:
        """Seconds of a step that drafts so many nodes; with none, of one whose drafter found nothing."""
        return self.draft(nodes) + self._at(self._forward, 1 + nodes) + self._at(self._verify, 1 + nodes)

    def draft(self, nodes: int) -> float:
        """Seconds of drafting so many nodes."""
        return self._at(self._draft, 1 + nodes)

    @property
    def break_even(self) -> float | None:
        """Acceptance at depth 1 below which drafts of one token lose; above 1 where they always do.

        None where nothing was drafted, so that the price is not known.
        """
        return (self.step(1) - self.plain) / self.plain if self._drafted else None

    def _at(self, costs: Costs, width: int) -> float:
        return costs.at(1, width) or 0.0


def predicted_speedup(steps: Sequence[StepRecord], stats: Statistics, costs: StepCosts) -> float | None:
    """Of these steps over plain ones: expected tokens and modelled seconds of each; None without steps.

    Args:
        steps: none of which read a prompt.
        stats: whose acceptance by depth is used; of the same steps, or more.
        costs: of this way.
    """
    if not steps:
        return None
    tokens = sum(expected_tokens(stats.conditional_by_depth, max(step.depths, default=0)) for step in steps)
    return tokens * costs.plain / sum(costs.step(len(step.depths)) for step in steps)


def best_fixed(steps: Sequence[StepRecord], stats: Statistics, costs: StepCosts) -> Advice:
    """The longest draft that promises most if every chain is cut there, 0 included.

    Args:
        steps: with drafts of full length, as long as the drafter would have them; none of which read a prompt.
        stats: whose acceptance by depth is used; depths that hardly a step came to are not recommended.
        costs: of this way.
    """
    best = Advice(0, 1.0)
    for length in sorted(stats.reached_at):
        if stats.reached_at[length] < _ENOUGH:
            break
        nodes = [min(length, len(step.depths)) for step in steps]
        tokens = sum(expected_tokens(stats.conditional_by_depth, depth) for depth in nodes)
        speedup = tokens * costs.plain / sum(map(costs.step, nodes)) if nodes else 0.0
        best = max(best, Advice(length, speedup), key=lambda advice: advice.speedup)
    return best


def expected_tokens(conditional: Mapping[int, float], depth: int) -> float:
    """Committed tokens of a step that drafts to a depth, by acceptance given that the depth before was."""
    total = reached = 1.0
    for at in range(1, depth + 1):
        reached *= conditional.get(at, 0.0)
        total += reached
    return total


def added(steps: Iterable[StepRecord]) -> Statistics:
    """Statistics of these steps."""
    total = Statistics()
    for step in steps:
        total.add(step)
    return total


def _by_nodes(steps: Sequence[StepRecord], part: int, nominal: Callable[[int, int], float]) -> Costs:
    """Medians of one part of the seconds of steps, by width."""
    spent: dict[int, list[float]] = {}
    for step in steps:
        spent.setdefault(bucket(1 + len(step.depths)), []).append(step.seconds[part])
    costs = Costs(nominal)
    for width, seconds in spent.items():
        costs.measure(1, width, median(seconds))
    return costs
