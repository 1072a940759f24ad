"""The exact law of the whole engine with sampled trees: real attention, tree masks, cache and roll-back."""

from dataclasses import dataclass

import pytest
import torch

from specproof.audit.engine_exact import audit_engine
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.hf import HFBackend
from specproof.backends.table import TableModel
from specproof.engine.engine import Engine
from specproof.rules import choose_rule
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.tree import Tree
from specproof.types import PROPOSE, Draft, Key, SamplingParams


@dataclass
class TreeDrafter:
    """Draws one shape from a table, for tests: nodes in order, as many as the budget allows."""

    model: TableModel
    tree: Tree
    drawn: str
    chains: bool = False

    def draft(self, batch, budget, noise):
        trees = tuple(Tree(self.tree.parents[:most]) for most in budget)
        width = max(len(tree) for tree in trees)
        tokens = torch.zeros(len(batch), width, dtype=torch.long)
        rows = torch.zeros(len(batch), width + 1, self.model.vocabulary, dtype=torch.float64)
        for b, (sequence, tree) in enumerate(zip(batch, trees, strict=True)):
            for node, parent in enumerate(tree.parents):
                row = self.model.row(sequence.tokens + tokens[b, list(tree.path(parent))].tolist())
                rows[b, parent + 1] = row
                if self.drawn == "without_replacement":
                    row = row.clone()
                    row[tokens[b, [n for n in tree.children(parent) if n < node]]] = 0
                key = Key(sequence.seed, len(sequence.tokens) - 1, PROPOSE, node)
                tokens[b, node] = noise.choose((row / row.sum())[None], [key])
        return Draft(trees, tokens, rows, self.drawn)

    def observe(self, batch, steps, output):
        """Nothing to roll back."""

    def free(self, batch):
        """Nothing to free."""


@pytest.mark.parametrize("drawn", ["iid", "without_replacement"])
@pytest.mark.parametrize("rule", ["siblings", "traversal"])
@pytest.mark.parametrize("parents", [(-1, -1, 0), pytest.param((-1, 0, -1, 2), marks=pytest.mark.slow)])
def test_engine_law_is_the_model_law(rule, drawn, parents):
    model = tiny_model("llama", vocabulary=2)
    drafter = TreeDrafter(TableModel.random(2, 1, torch.Generator().manual_seed(0)), Tree(parents), drawn)
    engine = Engine(HFBackend(model), drafter, rule, noise=EnumeratingNoise(), budget=len(parents))
    # The engine leaves room for the extra token: one more than the nodes, so that the whole tree is drafted.
    params = SamplingParams(max_tokens=len(parents) + 1)
    found = audit_engine(engine, lambda tokens: recomputed_logits(model, tokens), [0, 1], params)
    assert found.ok, found
    assert found.rounds >= 2


def test_auto_takes_traversal_for_sampled_trees():
    drafter = TreeDrafter(TableModel.constant([0.5, 0.5]), Tree((-1, -1)), "iid")
    assert choose_rule("auto", drafter).name == "traversal"
