"""Backends and drafters that fail on purpose, and the naive text to hold the engine to."""

import torch

from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.engine.baseline import decode
from specproof.errors import NumericsError
from specproof.noise import CounterNoise
from specproof.sampling import processors_for
from specproof.testing.tiny import recomputed_logits
from specproof.types import EXTRA, GUMBEL, Output, TokenSequence

VOCABULARY = 11


def plain(model, prompt, params, rule="rejection"):
    """Output of naive decoding, as far as there is a law."""
    made = processors_for(params, VOCABULARY)
    sequence = TokenSequence(list(prompt), len(prompt), params, params.seed or 0, frozenset(), made)
    use = GUMBEL if rule == "coupling" and params.temperature else EXTRA
    try:
        decode(lambda tokens: recomputed_logits(model, tokens), sequence, CounterNoise(), 64, use)
    except NumericsError:
        sequence.finish_reason = "error"
    return sequence


class Cramped(HFBackend):
    """Runs out of memory where `too_much(batch)` says so, having changed nothing."""

    def __init__(self, model, too_much, error):
        self.too_much, self.error, self.failures = lambda batch: False, error, 0
        super().__init__(model)
        self.too_much = too_much

    def forward(self, batch, draft, start=None):
        if self.too_much(batch):
            self.failures += 1
            raise self.error
        return super().forward(batch, draft, start)


class Holes(HFBackend):
    """Logits are NaN after every text, drafted path included, for which `hole` says so."""

    hole = staticmethod(lambda text: False)

    def forward(self, batch, draft, start=None):
        logits = super().forward(batch, draft, start).logits.clone()
        for b, (sequence, tree) in enumerate(zip(batch, draft.trees, strict=True)):
            for row in range(len(tree) + 1):
                path = [int(draft.tokens[b, node]) for node in tree.path(row - 1)]
                if self.hole(sequence.tokens + path):
                    logits[b, row] = torch.nan
        return Output(logits)


class Spoiled(ModelDrafter):
    """A draft model's drafts, spoiled from round `since` on wherever the victim takes part.

    spoil: from a draft and the victim's place in it to what is returned.
    """

    def __init__(self, backend, spoil, victim, since=2, told=None):
        super().__init__(backend, 3)
        self.spoil, self.victim, self.since, self.told = spoil, victim, since, told
        self.rounds = 0

    def draft(self, batch, budget, noise):
        draft = super().draft(batch, budget, noise)
        place = self._place(batch)
        if place is None:
            return draft
        self.rounds += 1
        return draft if self.rounds < self.since else self.spoil(draft, place)

    def observe(self, batch, steps, output):
        if self.told is not None and self._place(batch) is not None:
            raise self.told
        super().observe(batch, steps, output)

    def _place(self, batch):
        places = [b for b, sequence in enumerate(batch) if sequence.tokens[: len(self.victim)] == self.victim]
        return places[0] if places else None
