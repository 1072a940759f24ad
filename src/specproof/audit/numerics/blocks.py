"""Texts read with a cache, some tokens a forward: as speculation reads them; with one, as plain decoding does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from specproof.sampling import warp_batch
from specproof.tree import Tree
from specproof.types import Backend, Draft, TokenSequence


class Text(NamedTuple):
    """A text to read again: the sequence before its first token, and its tokens."""

    start: TokenSequence
    output: list[int]


class Block(NamedTuple):
    """Logits [n, V] that tokens `first` to `first + n - 1` of a text's output are drawn from."""

    text: int
    first: int
    logits: Tensor


def read(backend: Backend, texts: Sequence[Text], width: int) -> Iterator[Block]:
    """Read texts side by side: in each forward `width` tokens of each, as a root and a chain below it.

    Args:
        backend: has seen none of these texts.
        texts: one batch.
        width: rows of a forward for each text.
    """
    sequences = [replace(start, tokens=list(start.tokens)) for start, _ in texts]
    for first in range(0, max(len(text.output) for text in texts), width):
        live = [number for number, text in enumerate(texts) if first < len(text.output)]
        parts = [texts[number].output[first : first + width] for number in live]
        batch = [sequences[number] for number in live]
        logits = backend.forward(batch, chains(parts)).logits
        for sequence, part in zip(batch, parts, strict=True):
            sequence.tokens += part
        backend.keep(batch, [tuple(range(len(part) - 1)) for part in parts])
        for row, (number, part) in enumerate(zip(live, parts, strict=True)):
            yield Block(number, first, logits[row, : len(part)].cpu())
    backend.free(sequences)


def chains(parts: Sequence[Sequence[int]]) -> Draft:
    """A draft of everything but the last token of each part; the last one is drawn from the last row."""
    tokens = torch.zeros(len(parts), max(map(len, parts)) - 1, dtype=torch.long)
    for row, part in enumerate(parts):
        tokens[row, : len(part) - 1] = torch.tensor(part[:-1], dtype=torch.long)
    return Draft(tuple(Tree.chain(len(part) - 1) for part in parts), tokens, None, "point")


def standing(text: Text, first: int, count: int) -> tuple[TokenSequence, Draft]:
    """The text as it stands before token `first`, and the next `count` tokens as a draft."""
    before = replace(text.start, tokens=text.start.tokens + text.output[:first])
    return before, chains([text.output[first : first + count]])


def rows(text: Text, first: int, logits: Tensor) -> Tensor:
    """Rows [n, V] in double precision that tokens from `first` on are drawn from, of their logits [n, V]."""
    sequence, draft = standing(text, first, len(logits))
    return warp_batch(logits.double()[None], [sequence], draft).rows[0]
