"""Rule "coupling" in the engine: the text is a function of seed and target, whatever drafts.

Tiny float64 transformers; the expected text is decoded naively, one position at a time, with the same noise.
"""

from functools import partial

import pytest
import torch

from specproof.audit.engine_exact import audit_engine
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.hf import HFBackend
from specproof.drafters import choose_drafter
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.drafters.none import NoDrafter
from specproof.engine import loading
from specproof.engine.baseline import decode
from specproof.engine.engine import Engine
from specproof.noise import CounterNoise
from specproof.rules import coupling as coupling_module
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.tree import Tree
from specproof.types import GUMBEL, Draft, Key, SamplingParams, TokenSequence

VOCABULARY = 6
PROMPTS = [[1, 2, 3, 1, 2], [4], [0, 5, 0, 5, 0, 5, 0], [3, 3]]
PARAMS = [
    SamplingParams(max_tokens=16, seed=seed, temperature=t) for seed, t in ((1, 1), (2, 0.7), (3, 1.5), (4, 1))
]


class Garbage(NoDrafter):
    """Point drafts that have nothing to do with any model: trees and chains, of a size that keeps changing."""

    chains = False

    def __init__(self, length):
        self.length = length

    def draft(self, batch, budget, noise):
        trees, tokens = [], []
        for sequence, most in zip(batch, budget, strict=True):
            number = len(sequence.tokens) * 7 + sequence.tokens[-1]
            size = min(most, number % (self.length + 1))
            trees.append(Tree(tuple((node - 1) if number % 2 else (node - 1) // 2 for node in range(size))))
            tokens.append([(number + 3 * node) % VOCABULARY for node in range(size)])
        width = max(map(len, tokens))
        padded = torch.tensor([row + [0] * (width - len(row)) for row in tokens], dtype=torch.long)
        return Draft(tuple(trees), padded.reshape(len(batch), width), None, "point")


@pytest.fixture(scope="module")
def models():
    return tiny_model("llama", VOCABULARY, seed=0), tiny_model("llama", VOCABULARY, seed=1)


@pytest.fixture(scope="module")
def texts(models):
    return [naive(models[0], prompt, params) for prompt, params in zip(PROMPTS, PARAMS, strict=True)]


def naive(model, prompt, params):
    sequence = TokenSequence(list(prompt), len(prompt), params, params.seed)
    logits = partial(recomputed_logits, model)
    return tuple(decode(logits, sequence, CounterNoise(), context=64, use=GUMBEL))


def drafters(draft_model, length):
    return {
        "none": NoDrafter(),
        "ngram": NgramDrafter(length=length, shortest=1),
        "model, sampled": ModelDrafter(HFBackend(draft_model), length),
        "model, coupled": ModelDrafter(HFBackend(draft_model), length, coupled=True),
        "garbage": Garbage(length),
    }


def generate(target, drafter, **options):
    engine = Engine(HFBackend(target), drafter, "coupling", **options)
    return engine, [result.tokens for result in engine.generate(PROMPTS, PARAMS)]


@pytest.mark.parametrize("length", [1, 3, 6])
@pytest.mark.parametrize("name", ["none", "ngram", "model, sampled", "model, coupled", "garbage"])
def test_five_drafters_and_any_length_give_the_same_text(models, texts, name, length):
    _, found = generate(models[0], drafters(models[1], length)[name])
    assert found == texts


def test_batch_and_budget_do_not_matter(models, texts):
    for options in ({"max_batch": 1}, {"max_batch": 3}, {"budget": 2}, {"budget": 0}):
        assert generate(models[0], drafters(models[1], 4)["model, coupled"], **options)[1] == texts


def test_other_seeds_give_other_texts(models, texts):
    params = SamplingParams(max_tokens=16, seed=5)
    assert naive(models[0], PROMPTS[0], params) != texts[0]
    assert len(set(texts)) == len(texts)


def test_noise_keyed_by_the_step_is_noticed(models, texts, monkeypatch):
    # The fault that this file is to catch: a position's noise that depends on where its step began.
    def by_step(rows, batch, draft, noise):
        moved = [TokenSequence([0] * len(s.tokens), 1, s.params, s.seed * 1000 + len(s.tokens)) for s in batch]
        return coupling_module.decided(rows, moved, draft, noise)

    monkeypatch.setattr("specproof.engine.engine.decided", by_step)
    every = {name: generate(models[0], drafter)[1] for name, drafter in drafters(models[1], 3).items()}
    assert len({tuple(found) for found in every.values()}) > 1


def test_a_draft_model_with_the_same_noise_is_accepted_more_often(models):
    # A draft model close to the target, and fixed seeds: no statistics.
    near = tiny_model("llama", VOCABULARY, seed=0)
    with torch.no_grad():
        near.get_output_embeddings().weight.add_(
            0.3 * torch.randn(VOCABULARY, 16, generator=torch.Generator().manual_seed(0))
        )
    accepted = {}
    for name in ("model, sampled", "model, coupled"):
        engine, _ = generate(models[0], drafters(near, 4)[name])
        accepted[name] = engine.stats.acceptance
    assert accepted["model, coupled"] > accepted["model, sampled"] + 0.2
    engine, _ = generate(models[0], ModelDrafter(HFBackend(models[0]), 4, coupled=True))
    assert engine.stats.acceptance == 1  # the target itself, with the same noise


def test_the_coupled_drafter_shares_its_key_with_verification(models):
    asked = []

    class Listening(CounterNoise):
        def choose(self, rows, keys):
            asked.append(list(keys))
            return super().choose(rows, keys)

    engine = Engine(
        HFBackend(models[0]), ModelDrafter(HFBackend(models[1]), 2, coupled=True), "coupling", noise=Listening()
    )
    engine.generate([[1, 2, 3]], SamplingParams(max_tokens=3, seed=9))
    assert asked[0] == [Key(9, 2, GUMBEL)]
    assert asked[1] == [Key(9, 3, GUMBEL)]
    assert asked[2] == [Key(9, 2, GUMBEL)]


@pytest.mark.parametrize("drafter", ["none", "model, sampled", "model, coupled", "garbage"])
def test_exact_law_of_the_engine_is_the_models(drafter):
    target, draft = tiny_model("llama", 3, seed=2), tiny_model("llama", 3, seed=3)
    choice = drafters(draft, 2)[drafter]
    if drafter == "garbage":
        choice.draft, inner = (lambda *a: clipped(inner(*a))), choice.draft
    engine = Engine(HFBackend(target), choice, "coupling", noise=EnumeratingNoise(), eos=[2])
    params = SamplingParams(max_tokens=3, temperature=0.7)
    result = audit_engine(engine, partial(recomputed_logits, target), [1, 0], params)
    assert result.ok, result


def clipped(draft):
    return Draft(draft.trees, draft.tokens % 3, None, "point")


@pytest.mark.parametrize("rule", ["walk", "rejection", "block"])
def test_a_coupled_drafter_is_a_point_drafter_for_every_other_rule(rule):
    target, draft = tiny_model("llama", 3, seed=2), tiny_model("llama", 3, seed=3)
    drafter = ModelDrafter(HFBackend(draft), 1, coupled=True)
    assert drafter.drawn == "point"
    engine = Engine(HFBackend(target), drafter, rule, noise=EnumeratingNoise())
    result = audit_engine(engine, partial(recomputed_logits, target), [1, 0], SamplingParams(max_tokens=3))
    assert result.ok, result


def test_the_name_model_is_coupled_where_asked(models):
    target, draft = HFBackend(models[0]), HFBackend(models[1])
    assert choose_drafter("model", target, draft).drawn == "iid"
    assert choose_drafter("model", target, draft, coupled=True).drawn == "point"


def test_an_engine_by_name_couples_its_draft_model_to_the_rule(models, monkeypatch):
    class Tokenizer:
        eos_token_id = 0

        def get_vocab(self):
            return {"a": 0}

    monkeypatch.setattr(loading, "load_model", lambda name, *rest: models[name == "draft"])
    monkeypatch.setattr(loading, "load_tokenizer", lambda name: Tokenizer())
    for rule, coupled in (("coupling", True), ("block", False)):
        engine = loading.load_engine("target", drafter="model", draft_model="draft", rule=rule)
        assert engine.drafter.coupled == coupled
        assert engine.rule_name == rule
