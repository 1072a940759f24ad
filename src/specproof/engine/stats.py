"""What a request cost and gained; every figure has one definition, given here and in the glossary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


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
        histogram: steps by how many nodes they accepted.
        draft_seconds, forward_seconds, verify_seconds: wall-clock of the steps this request took part in;
            a step of a batch counts in full for each of its requests, and once in an engine's own total.
    """

    steps: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    drafted_at: Counter[int] = field(default_factory=Counter)
    accepted_at: Counter[int] = field(default_factory=Counter)
    histogram: Counter[int] = field(default_factory=Counter)
    draft_seconds: float = 0.0
    forward_seconds: float = 0.0
    verify_seconds: float = 0.0

    def count(self, depths: Iterable[int], accepted: int, kept: int) -> None:
        """Count one step.

        Args:
            depths: of the drafted nodes.
            accepted: nodes on the path that verification took.
            kept: tokens committed; at most accepted + 1, fewer where the step was cut.
        """
        if kept == 0:
            return
        asked = [depth for depth in depths if kept > accepted or depth <= kept]
        taken = min(accepted, kept)
        self.steps += 1
        self.tokens += kept
        self.drafted += len(asked)
        self.accepted += taken
        self.drafted_at.update(set(asked))
        self.accepted_at.update(range(1, taken + 1))
        self.histogram[taken] += 1

    def time(self, draft: float, forward: float, verify: float) -> None:
        """Add the wall-clock of one step, in seconds."""
        self.draft_seconds += draft
        self.forward_seconds += forward
        self.verify_seconds += verify

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
    def seconds(self) -> float:
        """Draft, forward and verify together."""
        return self.draft_seconds + self.forward_seconds + self.verify_seconds

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "steps": self.steps,
            "tokens": self.tokens,
            "tokens_per_forward": self.tokens_per_forward,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "acceptance": self.acceptance,
            "acceptance_by_depth": self.acceptance_by_depth,
            "histogram": dict(sorted(self.histogram.items())),
            "draft_seconds": self.draft_seconds,
            "forward_seconds": self.forward_seconds,
            "verify_seconds": self.verify_seconds,
        }
