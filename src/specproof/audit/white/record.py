"""Which part of which draft each token of a text came from, written down while an engine runs.

A recorder stands in the drafter's place. It sees where every step begins and what was drafted there, and knows
nothing of how the engine decides: also a faulty engine is recorded as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from specproof.audit.white.emission import BONUS, UNDRAFTED, Integers
from specproof.engine.engine import Engine
from specproof.types import Batch, Draft, Drafter, Noise, Output, Step, TokenSequence

LAST = BONUS - 1


class Places(NamedTuple):
    """Where the tokens of an output stood.

    Attributes:
        strata: [n] as in `emission.STRATA`.
        rows: by place in the output, the row that was drafted from, as far as the drafter gives one.
        drafted: drafts of one node or more.
        hidden: of these, those of which no row is known beforehand.
    """

    strata: Integers
    rows: dict[int, Tensor]
    drafted: int
    hidden: int = 0


class Block(NamedTuple):
    """One step: how many tokens stood before it, nodes below each other, rows at the root and after nodes."""

    start: int
    nodes: int
    chain: bool
    rows: list[Tensor]


class Recorder:
    """A drafter around another; see `Drafter`.

    Args:
        inner: the drafter.
        coupled: the rule decides tokens by noise that the drafter has, too (rule "coupling"). Point drafts that
            were made from it, or kept from texts that were, are not known beforehand: no bet may use them. Only
            a drafter that says it is `pure`, a function of the text so far and of nothing else, is believed.
    """

    def __init__(self, inner: Drafter, vocabulary: int, *, coupled: bool = False) -> None:
        self.inner, self.vocabulary, self.secret = inner, vocabulary, coupled and not getattr(inner, "pure", False)
        self.drawn, self.chains = inner.drawn, inner.chains
        self._blocks: dict[TokenSequence, list[Block]] = {}

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """See `Drafter.draft`."""
        draft = self.inner.draft(batch, budget, noise)
        for b, sequence in enumerate(batch):
            blocks = self._blocks.setdefault(sequence, [])
            # A step that ran out of memory is taken again.
            if blocks and blocks[-1].start == len(sequence.tokens):
                blocks.pop()
            self._settle(sequence)
            blocks.append(self._block(sequence, draft, b))
        return draft

    def observe(self, batch: Batch, steps: Sequence[Step], output: Output) -> None:
        """See `Drafter.observe`."""
        self.inner.observe(batch, steps, output)

    def free(self, batch: Batch) -> None:
        """See `Drafter.free`."""
        self.inner.free(batch)

    def take(self, sequence: TokenSequence) -> Places:
        """Where the tokens of a finished output stood; forgets it."""
        self._settle(sequence)
        count = len(sequence.output)
        strata = np.full(count, UNDRAFTED, dtype=np.int64)
        rows: dict[int, Tensor] = {}
        drafted = hidden = 0
        for block in self._blocks.pop(sequence, []):
            first = block.start - sequence.prompt_length
            rows |= {first + slot: row for slot, row in enumerate(block.rows) if first + slot < count}
            drafted += block.nodes > 0
            hidden += block.nodes > 0 and self.secret
            # Up to the end: the next block overwrites what is its own.
            slots = np.arange(count - first)
            within = np.minimum(slots, LAST)
            strata[first:] = np.where(slots >= block.nodes, BONUS, within) if block.chain else within
            if block.nodes == 0:
                strata[first:] = UNDRAFTED
        return Places(strata, rows, drafted, hidden)

    def _settle(self, sequence: TokenSequence) -> None:
        """Drop the last block's rows for places that were not reached."""
        blocks = self._blocks.get(sequence)
        if blocks:
            reached = len(sequence.tokens) - blocks[-1].start
            del blocks[-1].rows[reached:]

    def _block(self, sequence: TokenSequence, draft: Draft, b: int) -> Block:
        tree = draft.trees[b]
        if len(tree) == 0 or self.secret:
            rows = []
        elif tree.is_chain:
            rows = [self._row(draft, b, (slot,), slot) for slot in range(len(tree))]
        else:
            # Below the root it may depend on what was drawn which node a path goes through.
            rows = [self._row(draft, b, tree.children(-1), 0)]
        return Block(len(sequence.tokens), len(tree), tree.is_chain, rows)

    def _row(self, draft: Draft, b: int, nodes: tuple[int, ...], at: int) -> Tensor:
        """The row that these nodes were drawn from; even shares for nodes that are no draws."""
        if draft.rows is not None and draft.drawn != "point":
            return draft.rows[b, at].detach().cpu().clone()
        row = torch.zeros(self.vocabulary)
        row[draft.tokens[b, list(nodes)].cpu()] = 1 / len(nodes)
        return row


@contextmanager
def recorded(engine: Engine) -> Iterator[Recorder]:
    """Record an engine as long as this lasts."""
    inner = engine.drafting.drafter
    recorder = Recorder(inner, engine.target.vocabulary, coupled=engine.coupled)
    engine.drafting.drafter = recorder
    try:
        yield recorder
    finally:
        engine.drafting.drafter = inner
