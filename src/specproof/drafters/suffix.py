"""Suffix decoding: propose what followed most often wherever the text, or an earlier one, went like this.

Point drafts with no model. Where continuations split, the draft branches; each node's value is how often it
followed, so a draft is as large as the past is clear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import torch

from specproof.drafters.automaton import Match, SuffixAutomaton
from specproof.drafters.shapes.best_first import Found, best_first
from specproof.errors import SpecproofError
from specproof.tree import Tree
from specproof.types import Batch, Draft, Drawn, Noise, Output, Step, TokenSequence

_END = -1  # between remembered texts
Node = tuple[Match, int]  # what was read so far, and the token it ends with
Proposal = list[Found[Node]]


class SuffixDrafter:
    """Matches the end of the text with everything before it, and proposes the most probable continuations.

    A match of n tokens proposes at most `factor` * n nodes, of those that followed with an estimated probability
    of `least` or more; of all lengths of match the one with the largest expected number of accepted nodes is
    taken. The estimate of a token is its share of what followed; that of a node, the product along its path.

    Args:
        longest: most tokens of a match.
        factor: nodes proposed for each token of the match.
        least: smallest estimated probability of a proposed node.
        branching: whether a draft may branch; else it is the most probable chain.
        remember: tokens of finished outputs to draft from, the latest ones, 0 for none. Each text still follows
            the target's law, but which text comes out for a seed then depends on the requests before it; only
            rule "coupling" and temperature 0 give the same text again.

    Source: SuffixDecoding (2411.04975).
    """

    drawn: Drawn = "point"

    def __init__(
        self,
        longest: int = 16,
        factor: float = 2.0,
        least: float = 0.1,
        *,
        branching: bool = True,
        remember: int = 0,
    ) -> None:
        if longest < 1 or not 0 < factor < float("inf") or not 0 <= least <= 1 or remember < 0:
            raise SpecproofError(
                f"longest={longest}, factor={factor}, least={least}, remember={remember} are not allowed: "
                "give longest >= 1, factor > 0, least in [0, 1] and remember >= 0"
            )
        self.longest, self.factor, self.least = longest, factor, least
        self.chains = not branching
        self.remember = remember
        self._own: dict[TokenSequence, SuffixAutomaton] = {}
        self._memory = [SuffixAutomaton(longest), SuffixAutomaton(longest)]  # older, newer

    @property
    def pure(self) -> bool:
        """See `Drafter`."""
        return self.remember == 0

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """A tree for each sequence, empty where nothing matches."""
        proposals = [self._propose(sequence, most) for sequence, most in zip(batch, budget, strict=True)]
        width = max(map(len, proposals))
        tokens = [[node.item[1] for node in found] + [0] * (width - len(found)) for found in proposals]
        trees = tuple(Tree(tuple(node.parent for node in found)) for found in proposals)
        return Draft(trees, torch.tensor(tokens, dtype=torch.long).reshape(len(batch), width), None, "point")

    def observe(self, batch: Batch, steps: Sequence[Step], output: Output) -> None:
        """Nothing to roll back: only committed tokens are ever read."""

    def free(self, batch: Batch) -> None:
        """Forget these sequences, but for the outputs that are to be remembered."""
        for sequence in batch:
            if self._own.pop(sequence, None) is not None and self.remember:
                self._store(sequence.output)

    def _propose(self, sequence: TokenSequence, most: int) -> Proposal:
        """The best of all matches, in this text and in what is remembered."""
        own = self._own.setdefault(sequence, SuffixAutomaton(self.longest))
        for token in islice(sequence.tokens, own.size, None):
            own.append(token)
        best: Proposal = []
        worth = 0.0
        tail = sequence.tokens[-self.longest :]
        for automaton in (own, *(reversed(self._memory) if self.remember else ())):
            for match in automaton.suffixes(automaton.match(tail)):
                nodes = min(most, int(self.factor * match.length))
                if nodes <= worth:  # no node is worth more than 1, and shorter matches have fewer
                    break
                found = self._grow(automaton, match, nodes)
                value = sum(node.value for node in found)
                if value > worth:
                    best, worth = found, value
        return best

    def _grow(self, automaton: SuffixAutomaton, match: Match, most: int) -> Proposal:
        def children(node: Node) -> Iterator[tuple[float, Node]]:
            following = automaton.continuations(node[0])
            for share, longer, token in following[:1] if self.chains else following:
                yield share, (longer, token)

        return best_first(children, (match, _END), most, self.least)

    def _store(self, output: Sequence[int]) -> None:
        """Add a finished output; of two halves the older one is dropped when the newer one is full."""
        half = (self.remember + 1) // 2
        kept = output[-half:]
        if self._memory[1].size + len(kept) > half:
            self._memory = [self._memory[1], SuffixAutomaton(self.longest)]
        for token in (*kept, _END):
            self._memory[1].append(token)
