"""Biases and bans: logit_bias, bad_words, min_tokens, and a user's own function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from specproof.errors import SpecproofError
from specproof.params import CustomProcessor
from specproof.types import Contexts


@dataclass(frozen=True)
class LogitBias:
    """Adds a bias to some tokens' logits."""

    biases: Mapping[int, float]

    def __call__(self, logits: Tensor, contexts: Contexts) -> Tensor:
        """See `types.Processor`."""
        known = {token: bias for token, bias in self.biases.items() if token < logits.shape[1]}
        logits[:, list(known)] += logits.new_tensor(list(known.values()))
        return logits


@dataclass(frozen=True)
class BadWords:
    """Forbids the last token of a word where the text ends with its other tokens."""

    words: tuple[tuple[int, ...], ...]

    def __call__(self, logits: Tensor, contexts: Contexts) -> Tensor:
        """See `types.Processor`."""
        for row in range(len(logits)):
            text = contexts.tokens(row)
            for *begin, last in self.words:
                if last < logits.shape[1] and (not begin or text[-len(begin) :] == begin):
                    logits[row, last] = -torch.inf
        return logits


@dataclass(frozen=True)
class MinTokens:
    """Forbids the ends of a text before its output has `least` tokens."""

    least: int

    def __call__(self, logits: Tensor, contexts: Contexts) -> Tensor:
        """See `types.Processor`."""
        ends = [token for token in contexts.sequence.ends if token < logits.shape[1]]
        produced = len(contexts.sequence.output)
        for row in range(len(logits)):
            if produced + len(contexts.path(row)) < self.least:
                logits[row, ends] = -torch.inf
        return logits


@dataclass(frozen=True)
class Custom:
    """A user's function over (context, logits), for one row at a time."""

    function: CustomProcessor

    def __call__(self, logits: Tensor, contexts: Contexts) -> Tensor:
        """See `types.Processor`."""
        for row in range(len(logits)):  # none, where a batch mate's draft grows deeper than this one
            made = self.function(contexts.tokens(row), logits[row])
            if made.shape != logits.shape[1:]:
                raise SpecproofError(
                    f"a function in processors returned {list(made.shape)}; return logits {list(logits.shape[1:])}"
                )
            logits[row] = made
        return logits
