"""One sequence's tree while a model expands it: what was scored, what was generated, what is kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from specproof.drafters.shapes.expand import Candidates, Dynamic
from specproof.tree import Tree
from specproof.types import TokenSequence


@dataclass
class Expanding:
    """A tree for `ModelDrafter`'s point drafts; -1 stands for the root.

    Only expanded nodes are scored, so there are two numberings: of all candidates, and of the scored ones.

    Attributes:
        sequence: whose draft it is.
        plan: cut to budget and context; a plan of depth 0 or 0 nodes drafts nothing.
        candidates: all generated nodes.
        scored: candidates by their place in the draft model's tree.
        levels: number of scored nodes up to each depth.
        rows: the row after each scored node, [V].
    """

    sequence: TokenSequence
    plan: Dynamic
    candidates: Candidates = field(default_factory=Candidates)
    scored: list[int] = field(default_factory=list)
    levels: list[int] = field(default_factory=lambda: [0])
    rows: dict[int, Tensor] = field(default_factory=dict)

    @property
    def reader(self) -> TokenSequence:
        """The sequence under whose parameters rows are read, see `branching`."""
        return branching(self.sequence)

    @property
    def parents(self) -> list[int]:
        """Of the scored nodes, in their own numbering."""
        place = {candidate: node for node, candidate in enumerate(self.scored)}
        return [place.get(self.candidates.parents[candidate], -1) for candidate in self.scored]

    @property
    def tokens(self) -> list[int]:
        """Of the scored nodes."""
        return [self.candidates.tokens[candidate] for candidate in self.scored]

    def size(self, depth: int) -> int:
        """Scored nodes up to a depth."""
        return self.levels[min(depth, len(self.levels) - 1)]

    def expand(self, depth: int) -> None:
        """Generate the children of the nodes scored at `depth`, and choose which of them are scored next."""
        if depth >= self.plan.depth:
            return
        first = self.size(depth - 1) if depth else -1
        for node in range(first, self.size(depth)):
            row = self.rows.get(node)
            if row is None:
                continue  # nothing that can be drafted is allowed here
            confidences, tokens = row.topk(min(self.plan.width, len(row)))
            parent = self.scored[node] if node >= 0 else -1
            for token, confidence in zip(tokens.tolist(), confidences.tolist(), strict=True):
                self.candidates.add(parent, token, confidence)
        if depth + 1 < self.plan.depth:
            self.scored += self.candidates.widest(depth + 1, self.plan.width)
        self.levels.append(len(self.scored))

    def finish(self) -> tuple[Tree, list[int], list[int]]:
        """The kept tree, its tokens, and where each of its nodes stands among the scored ones.

        A node that was not scored stands behind all of them.
        """
        kept = self.candidates.kept(self.plan.nodes)
        place = {candidate: node for node, candidate in enumerate(kept)}
        scored = {candidate: node for node, candidate in enumerate(self.scored)}
        tree = Tree(tuple(place.get(self.candidates.parents[candidate], -1) for candidate in kept))
        tokens = [self.candidates.tokens[candidate] for candidate in kept]
        return tree, tokens, [scored.get(candidate, len(scored)) for candidate in kept]


def branching(sequence: TokenSequence) -> TokenSequence:
    """The sequence under whose parameters the confidences of point drafts are read.

    At temperature 0 that is temperature 1: a one-hot row has no second choice to branch to.
    """
    params = sequence.params
    if params.temperature > 0:
        return sequence
    return replace(sequence, params=replace(params, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0))
