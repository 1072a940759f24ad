"""Rows of a batch: each sequence's logits under its own parameters, after its own text and drafted path."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from specproof.errors import NumericsError
from specproof.sampling.filters import filtered, precise, settings
from specproof.sampling.grammar import Grammar
from specproof.tree import Tree
from specproof.types import Batch, Contexts, Draft, TokenSequence

_ROOT = Tree(())


class Rows(NamedTuple):
    """Next-token rows, and where logits gave none.

    Attributes:
        rows: [B, R, V], each sums to 1.
        broken: [B, R] bool; there the logits held NaN, +infinity or nothing finite, and the row is uniform
            instead. Any row will do: what is committed before it has the right law whatever it is.
    """

    rows: Tensor
    broken: Tensor


def warp_batch(logits: Tensor, batch: Batch, draft: Draft, start: Sequence[int] | None = None) -> Rows:
    """Rows of a forward pass: logits [B, R, V] as `Backend.forward` gave them for this draft and start."""
    scores = fold(logits, batch, draft, start)
    parts: list[Tensor] = []
    for _, group in groupby(batch, key=lambda sequence: settings(sequence.params)):
        first, several = sum(len(part) for part in parts), list(group)
        parts.append(filtered(scores[first : first + len(several)], several[0].params))
    rows = torch.cat(parts) if len(parts) > 1 else parts[0]
    broken = rows[..., 0].isnan()  # a row without a law is NaN everywhere
    if bool(broken.any()):
        rows = rows.masked_fill(broken[..., None], 1 / rows.shape[-1])
    return Rows(rows, broken)


def fold(logits: Tensor, batch: Batch, draft: Draft, start: Sequence[int] | None = None) -> Tensor:
    """Logits [B, R, V] after the processors of each sequence, which see the text before each row."""
    if not any(sequence.processors for sequence in batch):
        return logits
    scores = precise(logits).clone()
    tokens = draft.tokens.tolist()
    for b, sequence in enumerate(batch):
        first = start[b] if start else 0
        contexts = Contexts(sequence, draft.trees[b], tokens[b], first)
        count = len(draft.trees[b]) + 1 - first
        part = scores[b, :count]
        for processor in sequence.processors:
            part = processor(part, contexts)
        scores[b, :count] = part
    return scores


def warp_next(logits: Tensor, sequence: TokenSequence) -> Tensor:
    """The row [V] after the committed text, from its logits [V].

    Raises:
        NumericsError: there is none.
    """
    scores = precise(logits).clone()[None]
    for processor in sequence.processors:
        scores = processor(scores, Contexts(sequence, _ROOT, ()))
    row = filtered(scores, sequence.params)[0]
    if bool(row[0].isnan()):
        raise NumericsError(no_law(sequence))
    return row


def no_law(sequence: TokenSequence) -> str:
    """What is wrong where a row is broken."""
    place = f"no next token after {len(sequence.output)} tokens of output: logits hold NaN or infinity"
    if not sequence.processors:
        return place
    faults = [each.fault for each in sequence.processors if isinstance(each, Grammar) and each.fault]
    return f"{place}, or everything was forbidden{f' ({faults[0]})' if faults else ''}"
