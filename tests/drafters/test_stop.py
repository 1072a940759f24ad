"""Stopping a chain where the draft model is uncertain: the bound, the law, and the biased way to do it."""

from math import e

import pytest
import torch

from specproof.audit.engine_exact import audit_engine
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters.model import ModelDrafter, confidence
from specproof.drafters.none import empty_draft
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.testing.conformance import check_drafter
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.tree import Tree
from specproof.types import SamplingParams

VOCABULARY = 4


def row_of_entropy(entropy):
    """Uniform on n tokens and, in one more, whatever makes the entropy right."""
    low, high = 0.0, 1.0
    size = int(e**entropy) + 1
    for _ in range(200):
        share = (low + high) / 2
        row = torch.tensor([1 - share] + [share / size] * size, dtype=torch.float64)
        if float(torch.special.entr(row).sum()) < entropy:
            low = share
        else:
            high = share
    return row


@pytest.mark.parametrize(
    ("entropy", "bound"), [(0.5, 0.6838), (1.0, 0.5528), (2.0, 0.3675), (3.0, 0.2254), (5.0, 0.0), (6.0, 0.0)]
)
def test_the_bound_of_the_paper(entropy, bound):
    assert confidence(row_of_entropy(entropy)) == pytest.approx(bound, abs=5e-5)


def test_a_certain_row_is_certain():
    assert confidence(torch.tensor([0.0, 1.0, 0.0])) == 1


def drafter(stop_below, length=3, **options):
    return ModelDrafter(HFBackend(tiny_model("llama", VOCABULARY, 1)), length, stop_below=stop_below, **options)


@pytest.mark.parametrize("rule", ["block", pytest.param("rejection", marks=pytest.mark.slow)])
def test_the_law_is_exact_and_drafts_have_every_length(rule):
    model = tiny_model("llama", VOCABULARY, seed=0)
    engine = Engine(
        HFBackend(model), drafter(0.545), rule, max_batch=256, adaptive=False, noise=EnumeratingNoise(), trace=True
    )
    lengths, draft = set(), engine.drafter.draft

    def watched(batch, budget, noise):
        made = draft(batch, budget, noise)
        lengths.update((most, len(tree)) for most, tree in zip(budget, made.trees, strict=True))
        return made

    engine.drafter.draft = watched
    params = SamplingParams(temperature=0.8, top_k=3, max_tokens=4)
    result = audit_engine(engine, lambda tokens: recomputed_logits(model, tokens), [1, 0, 1], params)
    assert result.ok, str(result)
    assert {length for most, length in lengths if most == 3} == {1, 2, 3}


def test_it_keeps_the_contract_of_drafters():
    check_drafter(lambda: drafter(0.5), HFBackend(tiny_model("llama", VOCABULARY, seed=0)))


class Dropping(ModelDrafter):
    """The biased way: a token is drawn first, and dropped for what it is."""

    def draft(self, batch, budget, noise):
        made = super().draft(batch, budget, noise)
        return empty_draft(1, made.drawn) if made.tokens.tolist() == [[1]] else made


@pytest.mark.parametrize(("kind", "law"), [(ModelDrafter, (0.5, 0.5)), (Dropping, (0.75, 0.25))])
def test_dropping_a_drawn_token_for_its_value_is_biased(kind, law):
    """Target and draft are (1/2, 1/2); without the second token's drafts the text is (3/4, 1/4)."""
    even = TableModel.constant([0.5, 0.5])
    engine = Engine(
        TableBackend(even), kind(TableBackend(even), 1), "block", noise=EnumeratingNoise(), adaptive=False
    )
    noise, first = engine.noise, [0.0, 0.0]
    seed = 0
    while noise.open:
        noise.start(seed)
        request = engine.requests([0], SamplingParams(max_tokens=2, seed=seed))[0]
        for _ in engine.run([request]):
            pass
        first[request.sequence.output[0]] += noise.finish(seed).probability
        seed += 1
    assert first == pytest.approx(law, abs=1e-15)


@pytest.mark.parametrize(("tree", "value"), [(2, 1.5), (2, -0.1), (Tree((-1, -1)), 0.5)])
def test_what_cannot_be_stopped_is_refused(tree, value):
    with pytest.raises(SpecproofError, match="stop_below"):
        ModelDrafter(HFBackend(tiny_model("llama", VOCABULARY)), tree, stop_below=value)
