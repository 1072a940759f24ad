"""Keys and values of a batch: one preallocated store a layer, one row a sequence, rolled back in `keep`.

A row holds kept entries (committed tokens), then those in flight (written since the last `keep`). Nothing is
ever copied whole: a step writes its own entries, `keep` moves accepted tree nodes, `copy` gives a row what another
one has of the same beginning, `free` moves one row into the gap so that live rows stay together, and a full store
doubles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from specproof.types import Batch, TokenSequence

_FIRST_CAPACITY = 256


@dataclass
class _Row:
    sequence: TokenSequence
    kept: int = 0  # entries of committed tokens
    pending: int = 0  # committed tokens in flight
    tokens: list[int] | None = None  # drafted nodes in flight; None before the step's first forward
    broken: set[int] = field(default_factory=set)  # entries that were not finite; zeroed, see `guarded`

    @property
    def committed(self) -> int:
        return self.kept + self.pending

    @property
    def used(self) -> int:
        return self.committed + len(self.tokens or ())


class Write(NamedTuple):
    """Where one forward pass writes and what it may read.

    Attributes:
        first, last: live rows [first, last) take part.
        slots: [R, T] entry of each column of each of these rows.
        visible: entries [0, visible) are read, as far as the mask allows.
    """

    first: int
    last: int
    slots: Tensor
    visible: int


class KVStore:
    """The cache object that a transformers model writes to and reads from.

    transformers calls `update` once a layer; all bookkeeping is between forwards.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rows: list[_Row] = []
        self._row_of: dict[int, int] = {}
        self._keys: list[Tensor] = []  # per layer [rows, heads, capacity, width]
        self._values: list[Tensor] = []
        self._write: Write | None = None
        self._uniform: int | None = None  # first slot, where all rows write the same contiguous ones
        self._broken: Tensor | None = None  # [R, T] columns found not to be finite in a guarded pass

    def row(self, sequence: TokenSequence) -> int:
        """The row of a sequence; a new one at the end for a sequence not seen before."""
        index = self._row_of.get(id(sequence))
        if index is None:
            index = self._row_of[id(sequence)] = len(self.rows)
            self.rows.append(_Row(sequence))
        return index

    def missing(self, sequence: TokenSequence) -> int:
        """Committed tokens without an entry."""
        index = self._row_of.get(id(sequence))
        return len(sequence.tokens) - (0 if index is None else self.rows[index].committed)

    def begin(self, write: Write) -> None:
        """Announce the next forward pass."""
        self._write = write
        slots = write.slots
        first = slots[0, 0]
        run = torch.arange(slots.shape[1]) + first
        self._uniform = int(first) if bool((slots == run).all()) else None
        if slots.device != self.device:
            self._write = write._replace(slots=slots.to(self.device))

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write this layer's entries [R, heads, T, width]; returns all that is visible to these rows."""
        assert self._write is not None, "a forward pass that was not announced by begin()"
        first, last, slots, visible = self._write
        read: list[Tensor] = []
        for stores, entries in ((self._keys, keys), (self._values, values)):
            if layer == len(stores):
                stores.append(self._allocate(entries, last, visible))
            entries = self._finite(entries)
            store = stores[layer]
            if store.shape[0] < last or store.shape[2] < visible:
                store = stores[layer] = self._grown(store, last, visible)
            rows = store.narrow(0, first, last - first)
            if self._uniform is not None:
                rows.narrow(2, self._uniform, entries.shape[2]).copy_(entries)
            else:
                # Not scatter_: in bfloat16 it took 1.6 ms where this takes 0.03 (16 rows, 9 columns).
                which = torch.arange(last - first, device=self.device)[:, None]
                rows.transpose(1, 2).index_put_((which, slots), entries.transpose(1, 2))
            read.append(rows.narrow(2, 0, visible))
        return read[0], read[1]

    def kept(self, sequence: TokenSequence, layer: int) -> Tensor:
        """What a layer's first head keeps in place of keys [n, width] for the first n tokens of a sequence."""
        index = self._row_of.get(id(sequence))
        if index is None or layer >= len(self._keys):
            return torch.zeros(0, 0, device=self.device)
        return self._keys[layer][index, 0, : self.rows[index].kept]

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Run the announced pass once more, so that no column sees an entry that it may not look at.

        A masked NaN still spreads, through the score and through 0 x NaN. So entries that are not finite are
        zeroed and remembered as broken: the caller has to make NaN of whatever may look at them.
        """
        assert self._write is not None, "a forward pass that was not announced by begin()"
        first, last, slots, _ = self._write
        found = self._broken = torch.zeros(slots.shape, dtype=torch.bool, device=self.device)
        try:
            yield
        finally:
            self._broken = None
        for row, own, bad in zip(self.rows[first:last], slots, found, strict=True):
            row.broken |= {slot for slot in own[bad].tolist() if slot < row.used}  # padding is nobody's

    def _finite(self, entries: Tensor) -> Tensor:
        """The entries [R, heads, T, width], as they are unless this is a guarded pass."""
        if self._broken is None:
            return entries
        bad = ~entries.isfinite().all(-1).all(1)
        self._broken |= bad
        return entries.masked_fill(bad[:, None, :, None], 0)

    def get_seq_length(self, layer: int = 0) -> int:
        """Longest row; transformers asks, but positions and mask are always given explicitly."""
        return max((row.kept for row in self.rows), default=0)

    def keep(self, batch: Batch, paths: Sequence[Sequence[int]]) -> None:
        """Keep committed tokens and the accepted nodes, in order; forget every other node.

        A path may reach nodes that were never scored (a drafter does not score its last proposal): those
        are committed tokens without an entry, and the next forward catches up on them.
        """
        moves: list[tuple[int, int, int]] = []  # row, from, to
        for sequence, path in zip(batch, paths, strict=True):
            index = self._row_of.get(id(sequence))
            if index is None or self.rows[index].tokens is None:
                continue  # this step did not score it
            row = self.rows[index]
            assert row.tokens is not None
            scored = [node for node in path if node < len(row.tokens)]
            base = row.committed
            moves += [(index, base + node, base + i) for i, node in enumerate(scored) if node != i]
            accepted = [row.tokens[node] for node in scored]
            broken = {base + i for i, node in enumerate(scored) if base + node in row.broken}
            row.broken = broken | {slot for slot in row.broken if slot < base}
            row.kept, row.pending, row.tokens = base + len(scored), 0, None
            assert sequence.tokens[base : row.kept] == accepted, "kept entries are not the committed tokens"
        self.move(moves)

    def rewind(self, batch: Batch) -> None:
        """Take back everything in flight, committed tokens included: the next forward computes it in all layers.

        Entries stay where they are until they are written over; nothing looks at them.
        """
        for sequence in batch:
            index = self._row_of.get(id(sequence))
            if index is not None:
                row = self.rows[index]
                row.pending, row.tokens = 0, None
                row.broken = {slot for slot in row.broken if slot < row.kept}

    def free(self, batch: Batch) -> None:
        """Forget these sequences; the last row moves into each gap."""
        for sequence in batch:
            index = self._row_of.pop(id(sequence), None)
            if index is None:
                continue
            freed, last = self.rows[index], self.rows.pop()
            for store in (*self._keys, *self._values):
                store[index, :, : freed.used] = 0  # it may hold NaN, and a masked NaN still spreads
                if index < len(self.rows):
                    store[index, :, : last.used] = store[len(self.rows), :, : last.used]
            if index < len(self.rows):
                self.rows[index] = last
                self._row_of[id(last.sequence)] = index

    def clear(self) -> None:
        """Forget everything, values included: what a failed forward wrote may hold NaN."""
        self.rows.clear()
        self._row_of.clear()
        for store in (*self._keys, *self._values):
            store.zero_()

    def copy(self, source: TokenSequence, goal: TokenSequence, count: int) -> None:
        """Give a sequence the first `count` entries of another one, whose tokens there are the same."""
        index = self.row(goal)
        own, other = self.rows[index], self.rows[self.row(source)]
        assert own.kept == own.used <= count <= other.kept, "entries in flight, or not there"
        first, row = own.kept, self._row_of[id(source)]
        for stores in (self._keys, self._values):
            for layer, store in enumerate(stores):
                if store.shape[0] <= index:
                    stores[layer] = store = self._grown(store, index + 1, count)
                store[index, :, first:count] = store[row, :, first:count]
        own.kept = count
        own.broken |= {slot for slot in other.broken if first <= slot < count}

    def move(self, moves: Sequence[tuple[int, int, int]]) -> None:
        """Copy entries within rows: (row, from slot, to slot) each, all at once."""
        if not moves:
            return
        rows, source, goal = torch.tensor(moves, device=self.device).T
        for store in (*self._keys, *self._values):
            store[rows, :, goal] = store[rows, :, source]

    def _allocate(self, entries: Tensor, rows: int, capacity: int) -> Tensor:
        # Zeros, not empty: masked entries still enter the products, and 0 x NaN is NaN.
        capacity = max(_FIRST_CAPACITY, 1 << (capacity - 1).bit_length())
        return entries.new_zeros(rows, entries.shape[1], capacity, entries.shape[3])

    def _grown(self, old: Tensor, rows: int, capacity: int) -> Tensor:
        rows = old.shape[0] if rows <= old.shape[0] else max(rows, 2 * old.shape[0])
        new = self._allocate(old, rows, max(capacity, old.shape[2]))
        new[: old.shape[0], :, : old.shape[2]] = old
        return new
