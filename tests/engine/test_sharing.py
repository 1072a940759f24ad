"""A beginning that several texts have is read once, and nothing else changes."""

from dataclasses import replace

import pytest
import torch

from specproof.backends.hf import HFBackend
from specproof.backends.kv import KVStore
from specproof.drafters import HEADED, choose_drafter
from specproof.engine.engine import Engine
from specproof.testing.tiny import tiny_head, tiny_model
from specproof.types import SamplingParams

from .faulty import VOCABULARY, Cramped

LONG, OTHER, SHORT = [[(i * i + k) % VOCABULARY for i in range(30)] for k in range(2)] + [[3, 4]]
DRAFTED = ("none", "ngram", "model", "early_exit", "eagle3")
PARAMS = SamplingParams(max_tokens=12, logprobs=0)


def build(drafter="none", rule="auto", model=None, backend=HFBackend, **options):
    model = model or tiny_model("llama", VOCABULARY)
    head = tiny_head(model, range(VOCABULARY), length=3) if drafter in HEADED else None
    target = backend(model, taps=head.taps) if head is not None else backend(model)
    draft = HFBackend(tiny_model("llama", VOCABULARY, 1)) if drafter == "model" else None
    made = choose_drafter(drafter, target, draft, head=head, coupled=rule == "coupling")
    return Engine(target, made, rule, **options)


def columns(engine):
    """How many columns every forward of the target has from now on."""
    found = []
    engine.target.model.register_forward_pre_hook(
        lambda _, args, values: found.append(values["input_ids"].numel()), with_kwargs=True
    )
    return found


def drawn(engine, prompts):
    params = [replace(PARAMS, seed=number) for number in range(len(prompts))]
    results = engine.generate(prompts, params)
    return [(one.tokens, one.finish_reason, [entry.logprob for entry in one.logprobs]) for one in results]


CASES = [(drafter, rule, {}) for drafter in DRAFTED for rule in ("rejection", "coupling")]
CASES += [("eagle3", "rejection", {"prefill": 12}), ("eagle3", "rejection", {"max_batch": 5})]


@pytest.mark.parametrize(("drafter", "rule", "options"), CASES, ids=str)
def test_texts_are_those_of_each_prompt_alone(drafter, rule, options, monkeypatch):
    """Drafts too, or a text under "rejection" would be another one: they must not hang on mates."""
    prompts = [LONG, OTHER, LONG, SHORT, LONG, OTHER, SHORT, LONG]
    shared, alone = (build(drafter, rule, adaptive=False, **more) for more in (options, {"max_batch": 1}))
    copies, copy = [], KVStore.copy
    monkeypatch.setattr(KVStore, "copy", lambda *given: copies.append(given[1:]) or copy(*given))
    expected = drawn(alone, prompts)
    assert not copies
    found = drawn(shared, prompts)
    assert copies
    assert [one[:2] for one in found] == [one[:2] for one in expected]
    for (_, _, own), (_, _, other) in zip(found, expected, strict=True):
        assert own == pytest.approx(other, abs=1e-10)
    assert shared.stats.drafted == alone.stats.drafted
    assert not shared.target.store.rows


def test_samples_of_a_prompt_read_it_once():
    engine = build()
    found = columns(engine)
    for request in engine.requests(LONG, replace(PARAMS, n=5)) + engine.requests(OTHER, replace(PARAMS, n=2)):
        engine.add(request)
    engine.step()
    # Both prompts but for two tokens, then those two of all seven.
    assert found == [2 * 28, 7 * 2]
    engine.add(engine.requests(OTHER, PARAMS)[0])
    engine.step()
    assert found[2:] == [2, 7]  # it is there already


def test_what_is_not_worth_a_forward_is_not_shared():
    engine = build()
    found = columns(engine)
    for request in engine.requests(LONG[:20], replace(PARAMS, n=2)):
        engine.add(request)
    engine.step()
    assert found == [2 * 20]


def test_what_is_not_finite_is_shared_as_such():
    """A bad token in a prompt leaves no law for any of its samples, the copied ones included."""
    model = tiny_model("llama", VOCABULARY)
    engine = build(model=model)
    with torch.no_grad():
        model.get_input_embeddings().weight[10] = torch.nan
    sound = [token % 10 for token in LONG]
    bad = [*sound[:8], 10, *sound[9:]]
    results = engine.generate([bad] * 4 + [sound] * 3, replace(PARAMS, seed=1, max_tokens=1))
    assert [one.finish_reason for one in results] == ["error"] * 4 + ["length"] * 3


def test_memory_that_runs_out_while_the_beginning_is_read():
    whole = drawn(build(), [LONG] * 4)
    engine = build(backend=lambda model: Cramped(model, lambda batch: len(batch) > 2, MemoryError()))
    assert drawn(engine, [LONG] * 4) == [
        (tokens, reason, pytest.approx(logprobs, abs=1e-10)) for tokens, reason, logprobs in whole
    ]
    assert engine.target.failures
