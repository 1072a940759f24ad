"""What the trained heads share: a draft vocabulary, and a text cut to what a head reads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from specproof.backends.hf import HFBackend
from specproof.errors import SpecproofError
from specproof.types import Batch, TokenSequence


class DraftVocabulary(nn.Module):
    """A module that drafts some of the target's tokens, with the names of the speculators format.

    Args:
        drafted: number of tokens that it can draft; the first ones until others are chosen.
        vocabulary: number of the target's tokens.
        taps: the target's hidden states that it reads, see `HFBackend`.
    """

    d2t: Tensor
    t2d: Tensor

    def __init__(self, drafted: int, vocabulary: int, taps: tuple[int, ...]) -> None:
        super().__init__()
        self.taps = taps
        self.positions: int | None = None  # most tokens in a row that it can say
        # An offset, not a token: target token = draft token + d2t.
        self.register_buffer("d2t", torch.zeros(drafted, dtype=torch.long))
        self.register_buffer("t2d", torch.arange(vocabulary) < drafted)

    @property
    def drafted(self) -> Tensor:
        """Target token of each draft token, [D] long."""
        return torch.arange(len(self.d2t), device=self.d2t.device) + self.d2t

    def choose(self, tokens: Tensor) -> None:
        """Set the draft vocabulary: [D] long, ascending target tokens."""
        self.d2t.copy_(tokens - torch.arange(len(tokens)))
        self.t2d.zero_()[tokens] = True

    def spread(self, logits: Tensor) -> Tensor:
        """From draft [..., D] to target vocabulary [..., V]: minus infinity for what cannot be drafted."""
        if len(self.d2t) == len(self.t2d):
            return logits
        full = logits.new_full((*logits.shape[:-1], len(self.t2d)), -torch.inf)
        full[..., self.drafted] = logits
        return full


class Shadows:
    """Texts without their first or last tokens, as a head's cache knows them.

    Args:
        first, last: tokens that are left out at either end.
    """

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self._of: dict[TokenSequence, TokenSequence] = {}

    def __len__(self) -> int:
        return len(self._of)

    def of(self, sequence: TokenSequence) -> TokenSequence:
        """A sequence without these tokens, as far as it is committed."""
        shadow = self._of.get(sequence)
        if shadow is None:
            shadow = self._of[sequence] = TokenSequence([], 0, sequence.params, sequence.seed)
        shadow.tokens += sequence.tokens[self.first + len(shadow.tokens) : len(sequence.tokens) - self.last]
        return shadow

    def known(self, batch: Batch) -> list[TokenSequence]:
        """Of the sequences that were asked for before."""
        return [self._of[sequence] for sequence in batch if sequence in self._of]

    def forget(self, batch: Batch) -> list[TokenSequence]:
        """Drop these; returns what was known of them."""
        return [self._of.pop(sequence) for sequence in batch if sequence in self._of]


def has_features(target: HFBackend, sequence: TokenSequence) -> bool:
    """Whether the target has scored all that a head needs: every token but the root, at least one."""
    return 1 < len(sequence.tokens) <= len(target.features(sequence)) + 1


def check_features(target: HFBackend, batch: Batch, kind: str) -> None:
    """Raise after a step if the target of a drafter is not the one that runs: it would never draft anything."""
    if any(len(target.features(sequence)) < len(sequence.tokens) - 1 for sequence in batch):
        raise SpecproofError(
            f"the {kind} drafter reads the features of another backend than the one that runs: "
            "build both with the same HFBackend"
        )
