"""How far rounding moves a row: the engine's way of running the model against one plain pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specproof.audit.numerics.blocks import Text, read
from specproof.audit.numerics.moved import Moved, compare
from specproof.audit.white.forcing import Reference
from specproof.types import Backend, TokenSequence

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
    parts = []
    for text in (Text(*each) for each in texts):
        plain = reference(text.start.tokens + text.output, len(text.start.tokens))
        for block in read(fresh, [text], WIDTH):
            here = slice(block.first, block.first + len(block.logits))
            parts.append(compare(text, block.first, block.logits, plain[here]))
    moved = Moved.joined(parts)
    found = moved.tv
    p99 = float(np.quantile(found, 0.99))
    return Ledger(
        len(found),
        float(found.mean()),
        float(np.median(found)),
        p99,
        float(found.max()),
        float(moved.spread.max()),
    )
