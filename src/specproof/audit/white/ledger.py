"""How far rounding moves a row: the engine's way of running the model against one plain pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from specproof.audit.white.forcing import Reference
from specproof.sampling import warp_batch
from specproof.tree import Tree
from specproof.types import Backend, Draft, TokenSequence

# Rows further apart than this were not moved by rounding.
ROUNDING = 0.05
WIDTH = 5


@dataclass(frozen=True)
class Ledger:
    """Total variation between rows of blocks with a cache and rows of one pass, over the same texts.

    Attributes:
        positions: how many rows were compared.
        mean, median, p99, largest: of their total variations.
        spread: standard deviation of the difference of a logit, at the position where it is largest.
    """

    positions: int
    mean: float
    median: float
    p99: float
    largest: float
    spread: float

    @staticmethod
    def empty() -> Ledger:
        """Of a target whose rows do not depend on how it is run."""
        return Ledger(0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def __str__(self) -> str:
        if self.positions == 0:
            return "rows do not depend on how the target is run"
        return (
            f"rows in blocks of {WIDTH} against one pass: TV mean {self.mean:.1e}, 99 % {self.p99:.1e}, "
            f"largest {self.largest:.1e} at {self.positions} positions"
        )


def measure(fresh: Backend, reference: Reference, texts: Sequence[tuple[TokenSequence, list[int]]]) -> Ledger:
    """Compare on texts, each a sequence before its first token and its output.

    Args:
        fresh: a backend for the target that has run nothing yet.
        reference: the plain pass.
        texts: a few are enough.
    """
    distances: list[float] = []
    spreads: list[float] = []
    for start, output in texts:
        plain = reference(start.tokens + output, len(start.tokens)).double()
        sequence = replace(start, tokens=list(start.tokens))
        for first in range(0, len(output), WIDTH):
            block = output[first : first + WIDTH]
            tree = Tree.chain(len(block) - 1)
            draft = Draft((tree,), torch.tensor([block[:-1]], dtype=torch.long), None, "point")
            logits = fresh.forward([sequence], draft).logits.cpu().double()
            expected = plain[first : first + len(block)][None]
            rows = [warp_batch(each, [sequence], draft).rows[0] for each in (logits, expected)]
            distances += ((rows[0] - rows[1]).abs().sum(-1) / 2).tolist()
            # A shift of all logits of a row moves nothing.
            away = logits - expected
            away = away - away.mean(-1, keepdim=True)
            spreads += away.square().mean(-1).sqrt()[0].tolist()
            sequence.tokens += block
            fresh.keep([sequence], [tuple(range(len(block) - 1))])
        fresh.free([sequence])
    found = np.array(distances)
    p99 = float(np.quantile(found, 0.99))
    return Ledger(len(found), float(found.mean()), float(np.median(found)), p99, float(found.max()), max(spreads))
