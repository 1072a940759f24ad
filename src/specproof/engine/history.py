"""What became of the drafts of one request: acceptance by depth, forgetting slowly, and when to try again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache


@dataclass(frozen=True)
class Habits:
    """How quickly a policy learns, forgets, gives up and tries again.

    Attributes:
        prior: acceptance that is expected of a drafter of which nothing is known.
        weight: steps that this expectation counts for.
        memory: what an earlier step counts for, after each further one that drafted.
        margin: speculation has to promise this much more than plain decoding.
        first_wait, longest_wait: steps without speculation after it lost; each failed probe doubles them.
        probe_share: of all time, the most that probes may lose.
        refresh: a plain step is taken after so many steps without one, to know what it costs.
        column, node: nominal cost of one more column of a forward, and of one drafted token or one level of a
            tree, in plain forwards; for point drafts a token costs nothing.
    """

    prior: float = 0.7
    weight: float = 4.0
    memory: float = 0.95
    margin: float = 1.02
    first_wait: int = 4
    longest_wait: int = 64
    probe_share: float = 0.0025
    refresh: int = 256
    column: float = 0.02
    node: float = 0.06


# A tree is drafted in one size, so it loses little where it does not pay, and its worth is seen late: patience.
TREES = Habits(weight=8.0, margin=0.97, probe_share=0.02)


@dataclass
class History:
    """Counts of one request, or of a whole engine.

    Attributes:
        tried, accepted: by depth (0 for children of the root), decayed: steps whose draft was followed so far
            and went on, and those of them whose node there was accepted.
        largest: most nodes drafted in a step.
        wait: steps until speculation is tried again.
        pause: how long the next wait will be; 0 stands for the first.
        probing: whether the next draft is a probe.
        tokens: expected when it was last decided, by drafted nodes.
    """

    tried: list[float] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)
    largest: int = 0
    wait: int = 0
    pause: int = 0
    probing: bool = False
    tokens: list[float] = field(default_factory=list)

    def learn(self, depth: int, accepted: int, memory: float) -> None:
        """Take in a step that drafted to a depth and accepted that many nodes of a path.

        Nodes below the first rejection say nothing.
        """
        while len(self.tried) < depth:
            self.tried.append(0.0)
            self.accepted.append(0.0)
        for at in range(min(depth, accepted + 1)):
            self.tried[at] = memory * self.tried[at] + 1
            self.accepted[at] = memory * self.accepted[at] + (at < accepted)

    def overall(self, prior: float, weight: float) -> float:
        """Acceptance whatever the depth, shrunk to a prior that counts for `weight` steps."""
        return (sum(self.accepted) + weight * prior) / (sum(self.tried) + weight)

    def expected(self, longest: int, prior: float, weight: float) -> list[float]:
        """Expected tokens of a step that drafts 0, 1, … `longest` tokens in a chain, the extra one included.

        The acceptance at each depth is shrunk to the acceptance at all depths, and that to the prior.
        """
        overall = self.overall(prior, weight)
        pull = weight * overall
        tokens, reached, total = [1.0], 1.0, 1.0
        for tried, accepted in zip(self.tried[:longest], self.accepted, strict=False):
            reached *= (accepted + pull) / (tried + weight)
            total += reached
            tokens.append(total)
        for _ in range(longest + 1 - len(tokens)):
            reached *= overall
            total += reached
            tokens.append(total)
        return tokens

    def rest(self, habits: Habits) -> None:
        """Speculation lost: wait, longer each time, then probe."""
        self.wait = self.pause or habits.first_wait
        self.pause = min(2 * self.wait, habits.longest_wait)
        self.probing = True


# Seconds, or any unit, of a step that drafts so many nodes.
CostOf = Callable[[int], float]


def best_length(tokens: Sequence[float], cost: CostOf, lengths: Sequence[int]) -> int:
    """Of these lengths the one with most expected tokens for its cost; of equal ones the first."""
    return max(lengths, key=lambda length: tokens[length] / cost(length))


@lru_cache(maxsize=256)
def lengths_to(most: int) -> tuple[int, ...]:
    """Lengths from 1 to `most` that are worth comparing: every one at first, then in steps of a third or so."""
    steps = [1, 2, 3, 4]
    while steps[-1] < most:
        steps.append(steps[-1] * 3 // 2 if steps[-1] & (steps[-1] - 1) == 0 else steps[-1] * 4 // 3)
    return (*(step for step in steps if step < most), most)
