"""New weights between steps: the rest of each text follows the new model's law exactly, or nothing has changed."""

from collections import Counter, defaultdict
from itertools import count

import pytest
import torch

from specproof.audit.engine_exact import model_law
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters.eagle3 import Eagle3Drafter
from specproof.drafters.early_exit import EarlyExitDrafter
from specproof.drafters.medusa.drafter import MedusaDrafter
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.engine.sync import MANY, Counts
from specproof.engine.weights import module_of, shared
from specproof.errors import SpecproofError
from specproof.testing.tiny import ARCHITECTURES, recomputed_logits, tiny_head, tiny_medusa, tiny_model
from specproof.types import SamplingParams, TokenSequence

VOCABULARY = 3
PROMPT = [1, 0, 2, 1, 0]


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def made(drafter, seed=0, noise=None, architecture="llama"):
    """An engine whose drafter is of that kind."""
    model = tiny_model(architecture, VOCABULARY, seed)
    head = {"eagle3": tiny_head, "medusa": tiny_medusa}.get(drafter)
    head = None if head is None else head(model, range(VOCABULARY))
    target = HFBackend(model, taps=() if head is None else head.taps)
    drafters = {
        "none": lambda: "none",
        "ngram": lambda: "ngram",
        "model": lambda: ModelDrafter(HFBackend(tiny_model("llama", VOCABULARY, seed + 50)), 2),
        "early_exit": lambda: EarlyExitDrafter(target, 1, 2),
        "eagle3": lambda: Eagle3Drafter(head, target, 2),
        "medusa": lambda: MedusaDrafter(head, target, 2),
    }
    return Engine(target, drafters[drafter](), noise=noise, adaptive=False, max_batch=2000)


def laws_after_update(engine, new, params, steps):
    """Of every text so far at the update, the law of what it became."""
    noise, old, seeds = engine.noise, weights(engine.target.model), count()
    laws = defaultdict(Counter)
    while noise.open:
        engine.update_target(old)
        requests = []
        for _ in range(len(noise.open)):
            noise.start(seed := next(seeds))
            requests += engine.requests(PROMPT, SamplingParams(**params, seed=seed))
            engine.add(requests[-1])
        for _ in range(steps):
            engine.step()
        begun = [tuple(request.sequence.output) for request in requests]
        engine.update_target(new)
        while not all(request.done for request in requests):
            engine.step()
        for request, so_far in zip(requests, begun, strict=True):
            laws[so_far][tuple(request.sequence.output)] += noise.finish(request.sequence.seed).probability
            if len(so_far) < params["max_tokens"]:
                assert request.updates == [(len(so_far), engine.target_version)]
    return laws


def largest_distance(engine, new_model, steps=1):
    params = {"temperature": 0.8, "max_tokens": 4}
    found = laws_after_update(engine, weights(new_model), params, steps)
    assert abs(sum(sum(law.values()) for law in found.values()) - 1) < 1e-9
    worst = 0.0
    for begun, law in found.items():
        start = TokenSequence([*PROMPT, *begun], len(PROMPT), SamplingParams(**params), 0)
        expected = model_law(lambda tokens: recomputed_logits(new_model, tokens), start, 64)
        whole = sum(law.values())
        apart = sum(abs(law[text] / whole - expected.get(text, 0.0)) for text in {*law, *expected})
        worst = max(worst, apart / 2)
    return worst


@pytest.mark.parametrize("drafter", ["none", "ngram", "model", "early_exit", "eagle3", "medusa"])
def test_the_rest_of_a_text_has_the_new_models_law_exactly(drafter):
    engine = made(drafter, noise=EnumeratingNoise())
    assert largest_distance(engine, tiny_model("llama", VOCABULARY, 9)) < 1e-12


@pytest.mark.parametrize("drafter", ["none", "model"])
def test_keys_and_values_that_stay_are_caught(drafter, monkeypatch):
    """The mutant: new weights, the old weights' keys. It must show in the law."""
    engine = made(drafter, noise=EnumeratingNoise())
    monkeypatch.setattr(engine.target, "free", lambda batch: None)
    monkeypatch.setattr(engine.target, "clear", lambda: None)
    assert largest_distance(engine, tiny_model("llama", VOCABULARY, 9)) > 1e-3


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_an_updated_engine_is_one_built_with_the_new_weights(architecture, dtype):
    new = tiny_model(architecture, 11, 5).to(dtype)
    engine = Engine(HFBackend(tiny_model(architecture, 11, 4).to(dtype)), "ngram")
    params = SamplingParams(max_tokens=30, seed=3)
    before = engine.generate([PROMPT], params)[0]
    expected = Engine(HFBackend(new), "ngram").generate([PROMPT], params)[0]
    for given in (new, weights(new), {name: value.double() for name, value in weights(new).items()}):
        engine.update_target(given)
        after = engine.generate([PROMPT], params)[0]
        assert after.tokens == expected.tokens != before.tokens
        assert (after.updates, after.target_version) == ((), engine.target_version)
    assert engine.target_version == 3


def test_of_tied_weights_one_name_is_enough_and_two_must_agree():
    engine = Engine(HFBackend(tiny_model("gpt2", VOCABULARY)), "none")
    given = weights(tiny_model("gpt2", VOCABULARY, 1))
    one = {name: value for name, value in given.items() if name != "lm_head.weight"}
    engine.update_target(one)
    model = engine.target.model
    assert torch.equal(model.lm_head.weight, given["lm_head.weight"])
    assert model.lm_head.weight.data_ptr() == model.transformer.wte.weight.data_ptr()
    with pytest.raises(SpecproofError, match=r"are one in the target and differ"):
        engine.update_target({**given, "lm_head.weight": given["lm_head.weight"] + 1})
    assert torch.equal(model.lm_head.weight, given["lm_head.weight"])


NAME = "model.layers.1.mlp.up_proj.weight"
FAULTS = {
    "no place": lambda good: {**good, "model.other": good[NAME]},
    "is missing": lambda good: {name: value for name, value in good.items() if name != NAME},
    r"is \(2, 2\) and the target's": lambda good: {**good, NAME: torch.ones(2, 2).double()},
    "no plain tensor": lambda good: {**good, NAME: good[NAME].to("meta")},
    "without quantisation": lambda good: {**good, NAME: good[NAME].to(torch.int8)},
}


@pytest.mark.parametrize("message", FAULTS)
def test_weights_that_do_not_fit_change_nothing(message):
    engine = made("model")
    kept = weights(engine.target.model)
    request = engine.requests(PROMPT, SamplingParams(max_tokens=9, seed=1))[0]
    engine.add(request)
    engine.step()
    with pytest.raises(SpecproofError, match=message) as caught:
        engine.update_target(FAULTS[message](weights(tiny_model("llama", VOCABULARY, 1))))
    assert "\n" not in str(caught.value)
    assert all(torch.equal(kept[name], value) for name, value in engine.target.model.state_dict().items())
    assert (engine.target_version, request.updates) == (0, [])
    assert engine.target.store.rows, "keys were forgotten though nothing changed"


def test_a_module_of_another_configuration_is_refused():
    from transformers import LlamaForCausalLM

    engine = made("none")
    config = engine.target.model.config.to_dict()
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 77.0}
    other = LlamaForCausalLM(type(engine.target.model.config)(**config)).double().eval()
    with pytest.raises(SpecproofError, match="configuration"):
        engine.update_target(other)
    assert engine.target_version == 0


def test_a_module_trained_in_place_only_needs_to_be_named():
    engine = made("none", noise=EnumeratingNoise())
    model = engine.target.model
    request = engine.requests(PROMPT, SamplingParams(temperature=0, max_tokens=6))[0]
    engine.add(request)
    engine.noise.start(request.sequence.seed)
    engine.step()
    model.load_state_dict(tiny_model("llama", VOCABULARY, 9).state_dict())
    model.train()
    with pytest.raises(SpecproofError, match=r"eval\(\)"):
        engine.update_target(model)
    engine.update_target(model.eval())
    while not request.done:
        engine.step()
    text = [*PROMPT, *request.sequence.output]
    for place in range(len(PROMPT) + 1, len(text)):
        assert text[place] == int(recomputed_logits(model, text[:place]).argmax())


def test_a_head_reads_the_targets_new_embedding_and_its_own_new_weights():
    engine = made("eagle3")
    head, new = engine.drafter.backend.head, tiny_model("llama", VOCABULARY, 9)
    engine.update_target(new)
    assert torch.equal(head.embed_tokens.weight, new.get_input_embeddings().weight)
    assert (engine.target_version, engine.drafter_version) == (1, 1), "the embedding is a weight of both"
    other = weights(tiny_head(tiny_model("llama", VOCABULARY, 7), range(VOCABULARY), 3))
    with pytest.raises(SpecproofError, match="target's own in this drafter"):
        engine.update_drafter(other)
    del other["embed_tokens.weight"]
    assert engine.update_drafter(other, version=8) == 8
    assert torch.equal(head.fc.weight, other["fc.weight"])
    assert torch.equal(engine.target.model.get_input_embeddings().weight, new.get_input_embeddings().weight)


@pytest.mark.parametrize("drafter", ["model", "eagle3", "medusa"])
def test_new_drafter_weights_leave_the_text_on_the_targets_law(drafter):
    """Greedy: the text is the target's whatever drafts, before, between and after."""
    engine = made(drafter)
    request = engine.requests(PROMPT, SamplingParams(temperature=0, max_tokens=20))[0]
    engine.add(request)
    for _ in range(3):
        engine.step()
    other = made(drafter, seed=3).drafter
    own = weights(module_of(other))
    left = shared(module_of(engine.drafter), engine.target.model)
    engine.update_drafter({name: value for name, value in own.items() if name not in left})
    while not request.done:
        engine.step()
    text = [*PROMPT, *request.sequence.output]
    assert (request.updates, request.drafter_version, request.warnings) == ([], 0, [])
    for place in range(len(PROMPT), len(text)):
        assert text[place] == int(recomputed_logits(engine.target.model, text[:place]).argmax())


@pytest.mark.parametrize(("drafter", "message"), [("ngram", "no weights"), ("early_exit", "target's own weights")])
def test_drafters_without_weights_of_their_own_say_so(drafter, message):
    with pytest.raises(SpecproofError, match=message):
        made(drafter).update_drafter({})


def test_a_target_without_weights_and_versions_that_do_not_grow_are_refused():
    with pytest.raises(SpecproofError, match="takes no weights"):
        Engine(TableBackend(TableModel.constant([0.5, 0.5]))).update_target({})
    engine = made("none")
    with pytest.raises(SpecproofError, match="version 0 is not allowed"):
        engine.update_target(weights(engine.target.model), version=0)


def test_waiting_requests_begin_with_the_new_weights():
    engine = made("none")
    engine.scheduler.max_batch = engine.scheduler._most = 1
    first, second = (engine.requests(PROMPT, SamplingParams(max_tokens=4, seed=1))[0] for _ in range(2))
    engine.add(first)
    engine.add(second)
    engine.step()
    engine.update_target(tiny_model("llama", VOCABULARY, 9))
    while not (first.done and second.done):
        engine.step()
    assert (first.target_version, first.updates) == (0, [(1, 1)])
    assert (second.target_version, second.updates) == (1, [])


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ((0, 0), (MANY, 0), "exactly 0"),
        ((0, 0), (MANY, MANY), "exactly 1"),
        ((MANY, 600), (MANY, 440), "fell from 0.60 to 0.44"),
        ((MANY, 600), (MANY, 460), None),
        ((0, 0), (MANY - 1, 0), None),
        ((MANY - 1, 900), (MANY, 1), None),
    ],
)
def test_strange_acceptance_raises_an_alarm(before, now, words):
    engine = made("model")
    engine.stats.drafted, engine.stats.accepted = before
    engine.update_target(tiny_model("llama", VOCABULARY, 9))
    engine.update_drafter(tiny_model("llama", VOCABULARY, 9))  # a second sync in a row is the same one
    assert engine._synced == Counts(*before)
    engine.stats.drafted += now[0]
    engine.stats.accepted += now[1]
    alarm = engine.alarm()
    assert alarm is None if words is None else words in alarm
