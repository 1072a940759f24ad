"""Penalties for tokens that were seen before: repetition as in transformers, presence and frequency as in vLLM."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specproof.types import Contexts


@dataclass(frozen=True)
class RepetitionPenalty:
    """Divides positive and multiplies negative logits of all tokens in prompt, output and drafted path."""

    penalty: float

    def __call__(self, logits: Tensor, contexts: Contexts) -> Tensor:
        """See `types.Processor`."""
        seen = _counts(logits, contexts, 0) > 0
        return torch.where(seen, torch.where(logits < 0, logits * self.penalty, logits / self.penalty), logits)


@dataclass(frozen=True)
class OutputPenalty:
    """Taken from the logits of tokens in output and drafted path: once, and for each occurrence."""

    presence: float
    frequency: float

    def __call__(self, logits: Tensor, contexts: Contexts) -> Tensor:
        """See `types.Processor`."""
        counts = _counts(logits, contexts, contexts.sequence.prompt_length)
        return logits - self.frequency * counts - self.presence * counts.clamp(max=1)


def _counts(logits: Tensor, contexts: Contexts, start: int) -> Tensor:
    """How often each token stands before each row [R, V], counted from place `start` of the text.

    Tokens outside these logits (of a draft model with fewer) are not counted.
    """
    size = logits.shape[1]
    committed = torch.tensor(contexts.sequence.tokens[start:], dtype=torch.long)
    base = torch.bincount(committed[committed < size], minlength=size)
    counts = base.to(logits).repeat(len(logits), 1)
    places = [(row, token) for row in range(len(logits)) for token in contexts.path(row) if token < size]
    if places:
        rows, tokens = torch.tensor(places, device=logits.device).T
        counts.index_put_((rows, tokens), counts.new_ones(()), accumulate=True)
    return counts
