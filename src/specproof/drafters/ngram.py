"""Prompt lookup: propose what followed the last time the text ended like this.

Point drafts over prompt and output, with no model and no state; it pays where answers repeat their prompt.
"""

from collections.abc import Sequence

import numpy as np
import torch

from specproof.errors import SpecproofError
from specproof.tree import Tree
from specproof.types import Batch, Draft, Drawn, Noise, Output, Step


class NgramDrafter:
    """Looks for the longest suffix of the text that occurred before, and proposes its continuation.

    Args:
        longest, shortest: lengths of the suffix that are tried, longest first.
        length: most tokens proposed. Fewer after a short match: twice as many as matched, since a short
            match says little and a wide forward is not free.

    Source: Saxena 2023 (prompt lookup decoding); the length rule after SuffixDecoding (2411.04975).
    """

    drawn: Drawn = "point"
    chains = True
    pure = True

    def __init__(self, longest: int = 8, shortest: int = 2, length: int = 15) -> None:
        if not 1 <= shortest <= longest:
            raise SpecproofError(
                f"ngram lengths {shortest} to {longest} are no range; give 1 <= shortest <= longest"
            )
        self.longest, self.shortest, self.length = longest, shortest, length

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """A chain for each sequence, empty where nothing matches."""
        proposals = [
            self._lookup(sequence.tokens, min(self.length, most))
            for sequence, most in zip(batch, budget, strict=True)
        ]
        width = max(map(len, proposals))
        tokens = torch.tensor([p + [0] * (width - len(p)) for p in proposals], dtype=torch.long)
        return Draft(
            tuple(Tree.chain(len(p)) for p in proposals), tokens.reshape(len(batch), width), None, "point"
        )

    def observe(self, batch: Batch, steps: Sequence[Step], output: Output) -> None:
        """Nothing to roll back: it reads the text itself."""

    def free(self, batch: Batch) -> None:
        """Nothing to free."""

    def _lookup(self, tokens: list[int], most: int) -> list[int]:
        text = np.asarray(tokens)
        if most < 1 or len(text) <= self.shortest:
            return []
        # Length of the match that ends before each place, grown token by token: candidates thin out fast.
        ends = np.flatnonzero(text[:-1] == text[-1]) + 1
        matched = 1 if len(ends) else 0
        while len(ends) and matched < self.longest:
            longer = ends[ends > matched]
            longer = longer[text[longer - matched - 1] == text[len(text) - matched - 1]]
            if not len(longer):
                break
            ends, matched = longer, matched + 1
        if matched < self.shortest:
            return []
        after = ends[-1]  # of equally long matches the latest
        return tokens[after : after + min(most, 2 * matched)]
