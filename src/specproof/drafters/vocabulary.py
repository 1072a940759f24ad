"""A draft model with another vocabulary behind the target's: padding of another size, or another tokenizer.

Drafted tokens are those that both know, so the rows are the draft model's, restricted to these and normalised by
`warp`: they are what was drawn from, and the law stays the target's whatever the map. A bad map only costs
acceptance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from specproof.errors import SpecproofError
from specproof.types import Backend, Batch, Draft, Output, TokenSequence

Spelling = Callable[[int], Sequence[int]]


@dataclass
class _Shadow:
    """A text in the draft model's tokens; it only ever grows, so that the cache behind it stays valid."""

    sequence: TokenSequence
    translated: TokenSequence
    done: int = 0  # the sequence's tokens that were translated


class SharedVocabulary:
    """A backend in the target's vocabulary around a draft model's: token-level intersection.

    Logits are minus infinity for tokens that only the target has; tokens that only the draft model has are
    never proposed. Timor et al. 2025, "Accelerating LLM Inference with Lossless Speculative Decoding for
    Heterogeneous Vocabularies", the algorithm TLI.

    Args:
        backend: the draft model.
        vocabulary: number of the target's tokens.
        shared: from target to draft token, each draft token once; same ids (padding of another size) if not given.
        spell: any other target token in draft tokens; where it gives none or no tokens of the draft model's,
            `fallback` is read instead.
        fallback: a draft token.

    Raises:
        SpecproofError: no token is shared.
    """

    def __init__(
        self,
        backend: Backend,
        vocabulary: int,
        shared: Mapping[int, int] | None = None,
        spell: Spelling | None = None,
        fallback: int = 0,
    ) -> None:
        if shared is None:
            shared = {token: token for token in range(vocabulary)}
        pairs = sorted((t, d) for t, d in shared.items() if t < vocabulary and d < backend.vocabulary)
        if not pairs:
            raise SpecproofError(
                f"no token is shared by the draft model ({backend.vocabulary} tokens) and the target "
                f"({vocabulary}); give a draft model of the same language, or drafter 'ngram'"
            )
        if not 0 <= fallback < backend.vocabulary:
            raise SpecproofError(
                f"fallback={fallback} is not allowed: the draft model has {backend.vocabulary} tokens"
            )
        self.backend = backend
        self.vocabulary = vocabulary
        self.context = backend.context
        self.shared = dict(pairs)
        self._spell = spell
        self._fallback = fallback
        self._spelled: dict[int, tuple[int, ...]] = {token: (own,) for token, own in pairs}
        self._target, self._draft = torch.tensor(pairs).T
        self._shadows: dict[int, _Shadow] = {}

    def forward(self, batch: Batch, draft: Draft, start: Sequence[int] | None = None) -> Output:
        """See `Backend.forward`.

        Raises:
            SpecproofError: a text is too long for the draft model in its own tokens; the batch is forgotten.
        """
        texts = [self._translated(sequence) for sequence in batch]
        for b, (text, tree) in enumerate(zip(texts, draft.trees, strict=True)):
            longest = len(text.tokens) + max(tree.depths, default=0)
            if longest > self.context:
                self.free(batch)  # a draft that was begun cannot be grown any more
                raise SpecproofError(
                    f"sequence {b} has {longest} of the draft model's tokens and its context is {self.context}: "
                    "shorten the text, or give a draft model with a longer context"
                )
        tokens = torch.zeros_like(draft.tokens)
        for b, tree in enumerate(draft.trees):
            for node, token in enumerate(draft.tokens[b, : len(tree)].tolist()):
                (tokens[b, node],) = self.spelling(token)
        own = self.backend.forward(texts, Draft(draft.trees, tokens, None, draft.drawn), start).logits
        logits = own.new_full((*own.shape[:-1], self.vocabulary), -torch.inf)
        logits[..., self._target.to(own.device)] = own[..., self._draft.to(own.device)]
        return Output(logits)

    def keep(self, batch: Batch, paths: Sequence[Sequence[int]]) -> None:
        """See `Backend.keep`; accepted nodes are one token in both vocabularies, so paths are the same."""
        known = [(s, path) for s, path in zip(batch, paths, strict=True) if id(s) in self._shadows]
        self.backend.keep([self._translated(s) for s, _ in known], [path for _, path in known])

    def free(self, batch: Batch) -> None:
        """Forget these sequences."""
        gone = [self._shadows.pop(id(s)) for s in batch if id(s) in self._shadows]
        self.backend.free([shadow.translated for shadow in gone])

    def spelling(self, token: int) -> tuple[int, ...]:
        """A target token in draft tokens: at least one, always the same."""
        if token not in self._spelled:
            own = tuple(self._spell(token)) if self._spell is not None else ()
            legal = all(0 <= number < self.backend.vocabulary for number in own)
            self._spelled[token] = own if own and legal else (self._fallback,)
        return self._spelled[token]

    def _translated(self, sequence: TokenSequence) -> TokenSequence:
        """The sequence in draft tokens, as far as it is committed."""
        shadow = self._shadows.get(id(sequence))
        if shadow is None:
            shadow = _Shadow(sequence, TokenSequence([], 0, sequence.params, sequence.seed))
            self._shadows[id(sequence)] = shadow
        for token in sequence.tokens[shadow.done :]:
            shadow.translated.tokens += self.spelling(token)
        shadow.done = len(sequence.tokens)
        return shadow.translated
