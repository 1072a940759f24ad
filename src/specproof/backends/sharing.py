"""Texts that begin alike, as the samples of one prompt do: the beginning is read once, and its entries copied."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specproof.backends.hf import HFBackend
from specproof.tree import Tree
from specproof.types import Backend, Batch, Draft, TokenSequence

# Last tokens that each text reads itself. One would do for the law. But drafters that read the target's features
# draft for a text whose tokens but one were scored: whether they do in a first step would hang on batch mates.
_OWN = 2
# Columns that a further forward has to save, see `engine.scheduler`.
_FORWARD = 32


def share(target: Backend, batch: Batch, known: Sequence[TokenSequence] = ()) -> None:
    """Give each text the entries of its beginning that another one has, or will have had to read as well.

    Args:
        target: one without such entries is left alone.
        batch: texts that are about to be read, between steps.
        known: further ones that the target may know.
    """
    if not isinstance(target, HFBackend):
        return
    groups: dict[tuple[int, ...], list[TokenSequence]] = {}
    for sequence in batch:
        if _missing(target, sequence) > 0:
            groups.setdefault(tuple(sequence.tokens[:-_OWN]), []).append(sequence)
    sources = {begin: found for begin in groups if (found := _source(target, begin, known)) is not None}
    leaders = [group[0] for begin, group in groups.items() if begin not in sources and len(group) > 1]
    saved = sum(
        sum(_missing(target, other) for other in group[1:])
        for begin, group in groups.items()
        if begin not in sources
    )
    if saved > _FORWARD:
        _read(target, leaders)
        sources |= {tuple(leader.tokens[:-_OWN]): leader for leader in leaders}
    with target.mode():
        for begin, source in sources.items():
            for sequence in groups[begin]:
                if sequence is not source:
                    target.store.copy(source, sequence, len(begin))


def _missing(target: HFBackend, sequence: TokenSequence) -> int:
    """Tokens of its beginning that a text lacks."""
    return target.store.missing(sequence) - _OWN


def _source(target: HFBackend, begin: tuple[int, ...], known: Sequence[TokenSequence]) -> TokenSequence | None:
    """A text with this beginning that the target has read so far."""
    for other in known:
        read = len(other.tokens) - target.store.missing(other)
        if read >= len(begin) and tuple(other.tokens[: len(begin)]) == begin:
            return other
    return None


def _read(target: HFBackend, leaders: Sequence[TokenSequence]) -> None:
    """Read texts but for their own last tokens."""
    own = [sequence.tokens[-_OWN:] for sequence in leaders]
    for sequence in leaders:
        del sequence.tokens[-_OWN:]
    try:
        nothing = torch.zeros(len(leaders), 0, dtype=torch.long)
        target.forward(leaders, Draft((Tree.chain(0),) * len(leaders), nothing, None, "point"))
        target.keep(leaders, [()] * len(leaders))
    finally:
        for sequence, last in zip(leaders, own, strict=True):
            sequence.tokens += last
