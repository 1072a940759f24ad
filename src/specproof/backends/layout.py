"""Columns of one forward pass over a ragged batch: tokens, positions, slots and the tree mask.

Every row is laid out as `padding | committed tokens to catch up on | new nodes | padding`, with the root in
the same column for all rows, so that the rows to be scored are the last columns. Positions are places in the
text (depths for nodes), never columns; slots are places in the row's store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from specproof.backends.kv import KVStore, Write
from specproof.tree import Tree
from specproof.types import Batch, Draft


class Layout(NamedTuple):
    """Inputs of a forward pass over live rows [first, last) of the store, R of them.

    Attributes:
        tokens, positions: [R, T] long.
        mask: [R, 1, T, S] bool, true where a column may look.
        write: where the entries go.
        scored: how many of the last columns are asked for.
        order: row of each sequence of the batch, counted from `first`.
    """

    tokens: Tensor
    positions: Tensor
    mask: Tensor
    write: Write
    scored: int
    order: list[int]


class _Part(NamedTuple):
    """What one row adds: committed tokens, then its tree from node `new` on; `base` is their first slot."""

    committed: list[int]
    nodes: list[int]
    tree: Tree
    new: int
    base: int
    offset: int  # slot of node 0
    root: int  # position of the root


def lay_out(
    store: KVStore, batch: Batch, draft: Draft, start: Sequence[int] | None = None, limit: int | None = None
) -> Layout:
    """Plan a forward pass and enter it in the store's books; the caller has checked the lengths.

    With a `limit` only that many of the missing tokens are read, and the last of them takes the root's place;
    drafts are to be empty then.
    """
    indices = [store.row(sequence) for sequence in batch]
    first, last = min(indices), max(indices) + 1
    parts: dict[int, _Part] = {}
    skipped = start or [0] * len(batch)
    assert all(skipped) or not any(skipped), "some trees begin while others grow"
    for index, tree, tokens, skip in zip(indices, draft.trees, draft.tokens.tolist(), skipped, strict=True):
        parts[index] = _enter(store, index, tree, tokens[: len(tree)], skip, limit)
    ahead = max(len(part.committed) for part in parts.values())
    width = max(len(part.nodes) for part in parts.values())
    columns = [_columns(parts.get(row), store.rows[row].used, ahead, width) for row in range(first, last)]
    slots = torch.tensor([column.slots for column in columns])
    visible = int(slots.max()) + 1
    write = Write(first, last, slots, visible)
    mask = _mask([parts.get(row) for row in range(first, last)], slots, ahead, visible)
    return Layout(
        tokens=torch.tensor([column.tokens for column in columns]),
        positions=torch.tensor([column.positions for column in columns]),
        mask=mask[:, None],
        write=write,
        scored=width + (not any(skipped)),
        order=[index - first for index in indices],
    )


class _Columns(NamedTuple):
    tokens: list[int]
    positions: list[int]
    slots: list[int]


def _enter(store: KVStore, index: int, tree: Tree, tokens: list[int], start: int, limit: int | None) -> _Part:
    """What the row at `index` adds; the store then counts it as in flight."""
    row = store.rows[index]
    text = row.sequence.tokens[: None if limit is None else row.kept + limit]
    if start == 0:
        assert row.tokens is None, "a new draft before keep()"
        row.pending, row.tokens = len(text) - row.kept, []
        committed, base = text[row.kept :], row.kept
    else:
        assert row.tokens is not None, "a draft that grows before it began"
        assert row.tokens == tokens[: len(row.tokens)], "the draft changed in flight"
        committed, base = [], row.used
    new = max(0, start - 1)
    row.tokens = tokens
    return _Part(committed, tokens[new:], tree, new, base, row.committed, len(text) - 1)


def _columns(part: _Part | None, used: int, ahead: int, width: int) -> _Columns:
    """One row's columns; all padding takes the one slot behind the row's own entries, which nothing looks at."""
    if part is None:
        blank = ahead + width
        return _Columns([0] * blank, [0] * blank, [used] * blank)
    left, right = ahead - len(part.committed), width - len(part.nodes)
    own = len(part.committed) + len(part.nodes)
    end = part.base + own
    depths = part.tree.depths[part.new :]
    positions = [part.root - len(part.committed) + 1 + i for i in range(len(part.committed))]
    positions += [part.root + depth for depth in depths]
    return _Columns(
        [0] * left + part.committed + part.nodes + [0] * right,
        [0] * left + positions + [0] * right,
        [end] * left + list(range(part.base, end)) + [end] * right,
    )


def _mask(parts: Sequence[_Part | None], slots: Tensor, ahead: int, visible: int) -> Tensor:
    """[R, T, S] bool. A column sees its own past: all slots up to its own, in a tree its ancestors only."""
    entries = torch.arange(visible)
    mask = entries <= slots[..., None]
    for row, part in enumerate(parts):
        if part is None:
            mask[row] = entries == slots[row, :, None]  # padding sees itself, which is finite
            continue
        left, end = ahead - len(part.committed), ahead + len(part.nodes)
        if left:
            mask[row, :left] = entries == slots[row, :left, None]
        if end < mask.shape[1]:
            mask[row, end:] = entries == slots[row, end:, None]
        if not part.tree.is_chain:
            mask[row, ahead:end] = entries < part.offset
            for column, node in enumerate(range(part.new, len(part.tree)), start=ahead):
                mask[row, column, [part.offset + ancestor for ancestor in part.tree.path(node)]] = True
    return mask
