"""A drafter whose accepted lengths are chosen: it knows the greedy text and errs at a given place."""

import torch

from specproof.tree import Tree
from specproof.types import Draft


class ScriptedDrafter:
    """Proposes, in turn, drafts of given sizes whose first `right` tokens match the known text.

    script: (size, right) for each round of a sequence; size 0 drafts nothing.
    """

    drawn = "point"
    chains = True

    def __init__(self, texts, script, vocabulary):
        self.texts, self.script, self.vocabulary = texts, script, vocabulary
        self.rounds = {}
        self.freed = 0

    def draft(self, batch, budget, noise):
        chains = []
        for place, (sequence, most) in enumerate(zip(batch, budget, strict=True)):
            turn = self.rounds.get(id(sequence), place)
            self.rounds[id(sequence)] = turn + 1
            size, right = self.script[turn % len(self.script)]
            text = self.texts[tuple(sequence.tokens[: sequence.prompt_length])]
            known = text[len(sequence.output) : len(sequence.output) + min(size, most)]
            chains.append([t if i < right else (t + 1) % self.vocabulary for i, t in enumerate(known)])
        width = max(map(len, chains))
        tokens = torch.tensor([c + [0] * (width - len(c)) for c in chains], dtype=torch.long).reshape(
            len(chains), width
        )
        return Draft(tuple(Tree.chain(len(c)) for c in chains), tokens, None, "point")

    def observe(self, batch, steps, output):
        pass

    def free(self, batch):
        self.freed += len(batch)
