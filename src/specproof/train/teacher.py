"""What the target says about some texts: features and rows, made anew for every batch and never stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from specproof.train.data import Sample


@dataclass(frozen=True)
class Lesson:
    """A batch of texts, padded on the right.

    Attributes:
        tokens: [B, T] long.
        features: [B, T, taps x width].
        rows: [B, T, D]; the target's probabilities of the draft vocabulary's tokens after each token.
        said: [B, T]; its probability of the token that really followed, 0 after the last.
        spoken: [B, T] bool; whether the row decided a token of the completion.
    """

    tokens: Tensor
    features: Tensor
    rows: Tensor
    said: Tensor
    spoken: Tensor


class Teacher:
    """A transformers model as teacher.

    Args:
        model: the target, in evaluation mode.
        taps: hidden states that the head reads.
        drafted: [D] long, the draft vocabulary.
    """

    def __init__(self, model: Any, taps: Sequence[int], drafted: Tensor) -> None:
        self.model = model
        self.taps = tuple(taps)
        self.drafted = drafted.to(model.device)

    @torch.no_grad()
    def teach(self, samples: Sequence[Sample], temperature: float = 1.0) -> Lesson:
        """Score these texts, each in a pass of its own, so that nothing is padded."""
        parts = [self._read(sample, temperature) for sample in samples]
        return Lesson(*(pad_sequence(list(each), batch_first=True) for each in zip(*parts, strict=True)))

    def _read(self, sample: Sample, temperature: float) -> tuple[Tensor, ...]:
        tokens = torch.tensor(sample.tokens, device=self.model.device)
        result = self.model(input_ids=tokens[None], use_cache=False, output_hidden_states=True)
        features = torch.cat([result.hidden_states[tap][0] for tap in self.taps], -1)
        logits = result.logits[0]
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        rows = (logits / temperature).softmax(-1)
        features = features.to(rows.dtype)
        said = rows.new_zeros(len(tokens))
        said[:-1] = rows[:-1].gather(1, tokens[1:, None])[:, 0]
        spoken = torch.arange(len(tokens), device=tokens.device) >= sample.prompt_tokens - 1
        spoken[-1] = False
        return tokens, features, rows[:, self.drafted], said, spoken
