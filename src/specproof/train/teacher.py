"""What the target says about some texts: features and rows, kept in memory as far as it is allowed."""

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
        memory: most bytes of what was said that are kept for the next time; the rest is asked for again.
    """

    def __init__(self, model: Any, taps: Sequence[int], drafted: Tensor, memory: int = 0) -> None:
        self.model = model
        self.taps = tuple(taps)
        self.drafted = drafted.to(model.device)
        self._room = memory
        self._kept: dict[tuple[Sample, float], tuple[Tensor, ...]] = {}

    @torch.no_grad()
    def teach(self, samples: Sequence[Sample], temperature: float = 1.0) -> Lesson:
        """Score these texts, each in a pass of its own, so that nothing is padded."""
        parts = [self._recalled(sample, temperature) for sample in samples]
        tokens, features, rows, said, spoken = (
            pad_sequence(list(each), batch_first=True) for each in zip(*parts, strict=True)
        )
        return Lesson(tokens, features.to(said.dtype), rows.to(said.dtype), said, spoken)

    def _recalled(self, sample: Sample, temperature: float) -> tuple[Tensor, ...]:
        kept = self._kept.get((sample, temperature))
        if kept is None:
            kept = self._read(sample, temperature)
            size = sum(part.nbytes for part in kept)
            if size <= self._room:
                self._room -= size
                self._kept[sample, temperature] = kept
        return kept

    def _read(self, sample: Sample, temperature: float) -> tuple[Tensor, ...]:
        tokens = torch.tensor(sample.tokens, device=self.model.device)
        result = self.model(input_ids=tokens[None], use_cache=False, output_hidden_states=True)
        features = torch.cat([result.hidden_states[tap][0] for tap in self.taps], -1)
        logits = result.logits[0]
        half = logits.dtype in (torch.float16, torch.bfloat16)
        if half:
            logits = logits.float()
        scaled = logits / temperature
        mass = scaled.logsumexp(-1, keepdim=True)
        rows = (scaled[:, self.drafted] - mass).exp()
        said = rows.new_zeros(len(tokens))
        said[:-1] = (scaled[:-1].gather(1, tokens[1:, None]) - mass[:-1]).exp()[:, 0]
        spoken = torch.arange(len(tokens), device=tokens.device) >= sample.prompt_tokens - 1
        spoken[-1] = False
        # float16 rounds a probability by less than half of what bfloat16 logits did.
        return tokens, features, rows.half() if half else rows, said, spoken
