"""Two drafters in one: what stood in the text before is looked up, and where nothing did, a model drafts.

A looked-up token is a fact of the text, not drawn: beside drawn ones its row has it alone. Each sequence's draft
is one or the other, chosen by the text alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specproof.errors import SpecproofError
from specproof.types import Batch, Draft, Drafter, Drawn, Noise, Output, Step


class HybridDrafter:
    """Takes the lookup's chain where it is long enough, and the other's elsewhere.

    Args:
        lookup: of point chains, which costs nothing: "ngram" or "suffix" without branches.
        other: of chains, or of points or distinct tokens in any shape.
        vocabulary: number of tokens.
        least: tokens that a looked-up chain must have; shorter ones say little. A chain that the budget cut
            counts as long.

    Raises:
        SpecproofError: these two do not go together.
    """

    def __init__(self, lookup: Drafter, other: Drafter, vocabulary: int, least: int = 6) -> None:
        if least < 1:
            raise SpecproofError(f"least={least} is not allowed: a looked-up chain has 1 token or more")
        if lookup.drawn != "point" or not lookup.chains:
            raise SpecproofError("the lookup of a hybrid drafter must draft point chains: give 'ngram'")
        if other.drawn not in ("point", "without_replacement") and not (other.drawn == "iid" and other.chains):
            raise SpecproofError(
                "a hybrid drafter takes chains, and trees of points or without replacement, and this one drafts "
                f"{other.drawn} trees: give it a chain's length, 'dynamic' or 'mixed'"
            )
        self.lookup, self.other, self.vocabulary, self.least = lookup, other, vocabulary, least
        self.drawn: Drawn = other.drawn
        self.chains = other.chains

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """A chain for each sequence, from one of the two."""
        found = self.lookup.draft(batch, budget, noise)
        sizes = [len(tree) for tree in found.trees]
        taken = [0 < size >= min(self.least, most) for size, most in zip(sizes, budget, strict=True)]
        rest = [0 if took else most for took, most in zip(taken, budget, strict=True)]
        drafted = self.other.draft(batch, rest, noise)
        if not any(taken):
            return drafted
        return _merged(found, drafted, taken, self.vocabulary)

    def observe(self, batch: Batch, steps: Sequence[Step], output: Output) -> None:
        """Both see the commit; of a looked-up chain the other has scored nothing, and catches up."""
        self.lookup.observe(batch, steps, output)
        self.other.observe(batch, steps, output)

    def free(self, batch: Batch) -> None:
        """Forget these sequences."""
        self.lookup.free(batch)
        self.other.free(batch)


def _merged(found: Draft, drafted: Draft, taken: Sequence[bool], vocabulary: int) -> Draft:
    """Looked-up chains where they were taken; beside drawn ones each token has a row that holds it alone."""
    trees = tuple(f if took else d for f, d, took in zip(found.trees, drafted.trees, taken, strict=True))
    width = max(map(len, trees))
    tokens = torch.zeros(len(trees), width, dtype=torch.long)
    rows = None
    if drafted.drawn != "point":
        like = torch.zeros(0) if drafted.rows is None else drafted.rows
        rows = like.new_zeros(len(trees), width + 1, vocabulary)
    for b, (tree, took) in enumerate(zip(trees, taken, strict=True)):
        size = len(tree)
        tokens[b, :size] = (found if took else drafted).tokens[b, :size]
        if rows is not None and took:
            rows[b, range(size), tokens[b, :size]] = 1
        elif rows is not None and size:
            assert drafted.rows is not None
            rows[b, :size] = drafted.rows[b, :size]
    return Draft(trees, tokens, rows, drafted.drawn)
