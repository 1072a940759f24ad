"""What a target forward costs by its width: the price of checking a draft against that of one token."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import torch

from specproof.bench.measure import Clock
from specproof.drafters.none import empty_draft
from specproof.errors import SpecproofError
from specproof.tree import Tree
from specproof.types import Backend, Draft, SamplingParams, TokenSequence

# Root and drafted nodes together.
WIDTHS = (1, 2, 3, 5, 9, 17)
# Tokens before the root: as long as a short chat.
CONTEXT = 128


def forward_costs(
    target: Backend, clock: Clock, repeats: int = 7, widths: Sequence[int] = WIDTHS
) -> dict[int, float]:
    """Median seconds of one forward by width, batch 1; widths take turns, the first turn does not count."""
    context = min(CONTEXT, target.context - max(widths) - len(widths))
    if context < 1:
        raise SpecproofError(f"a context of {target.context} tokens is too short to measure forwards in")
    spent: dict[int, list[float]] = {width: [] for width in widths}
    for turn in range(repeats + 1):
        # Any tokens will do: attention and matrices take no less time for dull ones.
        sequence = TokenSequence([1] * context, context, SamplingParams(), 0)
        target.forward([sequence], empty_draft(1))
        target.keep([sequence], [()])
        for width, seconds in spent.items():
            sequence.tokens.append(1)
            draft = Draft((Tree.chain(width - 1),), torch.full((1, width - 1), 1), None, "point")
            start = clock()
            target.forward([sequence], draft)
            taken = clock() - start
            target.keep([sequence], [()])
            if turn:
                seconds.append(taken)
        target.free([sequence])
    return {width: median(seconds) for width, seconds in spent.items()}
