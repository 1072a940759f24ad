"""Requests come, go and share the engine between steps; a long prompt, or a mate that is done, holds nobody up."""

import random

import pytest

from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.testing.tiny import tiny_model
from specproof.types import SamplingParams

from .faulty import VOCABULARY, Cramped, plain
from .scripted import ScriptedDrafter

PROMPTS = [[1, 2, 3], [7, 7, 2], [5], [9, 8, 7, 6, 5, 4, 3, 2]]
GREEDY = SamplingParams(temperature=0, max_tokens=12)
LONG = [i % VOCABULARY for i in range(50)]


@pytest.fixture(scope="module")
def models():
    return tiny_model("llama", VOCABULARY), tiny_model("llama", VOCABULARY, 1)


@pytest.fixture(scope="module")
def texts(models):
    return [tuple(plain(models[0], prompt, GREEDY).output) for prompt in PROMPTS]


def make(models, drafter="ngram", **options):
    made = ModelDrafter(HFBackend(models[1]), 3) if drafter == "model" else NgramDrafter(shortest=1)
    return Engine(HFBackend(models[0]), made, **options)


def finish(engine, request):
    while not request.done:
        assert engine.step()
    return engine.result(request)


@pytest.mark.parametrize("drafter", ["ngram", "model"])
@pytest.mark.parametrize("steps", range(8))
def test_a_request_is_cancelled_while_it_waits_reads_or_runs(models, texts, drafter, steps):
    """One row and pieces of 5 tokens: the second waits until the first, at step 3, has read its 15 tokens."""
    engine = make(models, drafter, max_batch=2, prefill=5)
    long, running, waiting = (engine.requests(p, GREEDY)[0] for p in (LONG[:15], PROMPTS[0], PROMPTS[1]))
    for request in (long, running, waiting):
        engine.add(request)
    for _ in range(steps):
        engine.step()
    output = list(long.sequence.output) if not long.unread else []
    engine.cancel(long)
    engine.cancel(long)  # twice is once
    cancelled = engine.result(long)
    assert cancelled.finish_reason == "cancelled"
    assert list(cancelled.tokens) == output
    assert finish(engine, running).tokens == texts[0]
    assert finish(engine, waiting).tokens == texts[1]
    assert engine.step() == []
    assert engine.target.store.rows == []
    engine.cancel(running)  # what is done stays what it is
    assert engine.result(running).finish_reason == "length"


def test_a_waiting_request_is_cancelled(models, texts):
    engine = make(models, max_batch=1)
    first, second, third = (engine.requests(prompt, GREEDY)[0] for prompt in PROMPTS[:3])
    for request in (first, second, third):
        engine.add(request)
    engine.step()
    engine.cancel(second)
    assert engine.result(second).tokens == ()
    assert finish(engine, third).tokens == texts[2]
    assert engine.result(first).tokens == texts[0]


def test_a_request_is_added_once(models):
    engine = make(models)
    (request,) = engine.requests(PROMPTS[0], GREEDY)
    engine.add(request)
    with pytest.raises(SpecproofError, match="in the engine already"):
        engine.add(request)
    engine.step()
    with pytest.raises(SpecproofError, match="in the engine already"):
        engine.add(request)
    engine.cancel(request)
    with pytest.raises(SpecproofError, match=r"done \(cancelled\)"):
        engine.add(request)
    assert engine.step() == []


@pytest.mark.parametrize("drafter", ["ngram", "model"])
def test_generate_within_a_loop_of_steps(models, texts, drafter):
    engine = make(models, drafter, max_batch=2)
    (outer,) = engine.requests(PROMPTS[3], GREEDY)
    engine.add(outer)
    for prompt, text in zip(PROMPTS[:3], texts, strict=False):
        if not outer.done:
            engine.step()
        assert engine.generate([prompt, prompt], GREEDY)[1].tokens == text
    assert finish(engine, outer).tokens == texts[3]


def test_a_stream_within_a_stream(models, texts):
    engine = make(models, "model")
    inner = []
    for result in engine.stream(PROMPTS[0], GREEDY):
        inner.append(list(engine.stream(PROMPTS[1], GREEDY))[-1].tokens)
        outer = result
    assert outer.tokens == texts[0]
    assert set(inner) == {texts[1]}


@pytest.mark.parametrize("drafter", ["ngram", "model"])
def test_more_completions_than_rows(models, drafter):
    """Completion 0 is what n = 1 gives; the others follow seeds that depend on nothing but their number."""
    params = SamplingParams(seed=5, max_tokens=10, n=7)
    results = make(models, drafter, max_batch=3).generate([PROMPTS[0]], params)
    assert [result.index for result in results] == list(range(7))
    assert len({result.tokens for result in results}) > 4
    for result in results:
        one = SamplingParams(seed=result.seed, max_tokens=10)
        assert make(models, drafter).generate([PROMPTS[0]], one)[0].tokens == result.tokens


@pytest.mark.parametrize("rule", ["block", "rejection", "coupling"])
@pytest.mark.parametrize("turn", range(2))
def test_b43_arrivals_order_and_mates_change_nothing(models, rule, turn):
    """Field cases B28 and B43: the same requests in another order, at other steps, in other company."""
    rng = random.Random(turn)
    jobs = [
        (PROMPTS[i % 4] if i < 5 else LONG, SamplingParams(seed=i, max_tokens=4 + i, temperature=0.5 + i / 8))
        for i in range(7)
    ]
    expected = [make(models, "model", rule=rule).generate([p], q)[0].tokens for p, q in jobs]
    engine = make(models, "model", rule=rule, max_batch=rng.randint(2, 5), prefill=rng.choice([3, 9, 512]))
    requests = [engine.requests(prompt, params)[0] for prompt, params in jobs]
    late = rng.sample(range(7), 7)
    while not all(request.done for request in requests):
        if late and rng.random() < 0.5:
            engine.add(requests[late.pop()])
        engine.step()
    assert [engine.result(request).tokens for request in requests] == expected


@pytest.mark.parametrize("prefill", [1, 5])
def test_a_long_prompt_keeps_nobody_waiting(models, prefill):
    """While 50 tokens are read, piece by piece, every request that runs gets a token in every step."""
    engine = make(models, prefill=prefill)
    running = [engine.requests(prompt, SamplingParams(temperature=0, max_tokens=60))[0] for prompt in PROMPTS[:3]]
    for request in running:
        engine.add(request)
    while any(request.unread for request in running):
        engine.step()
    (long,) = engine.requests(LONG, GREEDY)
    engine.add(long)
    steps = 0
    while not long.sequence.output:
        before = [len(request.sequence.output) for request in running]
        left = len(long.unread)
        engine.step()
        steps += 1
        assert len(long.unread) == max(0, left - prefill)
        for request, produced in zip(running, before, strict=True):
            assert request.done or len(request.sequence.output) > produced
    assert steps == len(LONG) // prefill


def test_a_short_prompt_does_not_wait_for_a_long_one(models):
    engine = make(models, prefill=5)
    long, short = engine.requests(LONG, GREEDY)[0], engine.requests([1, 2], GREEDY)[0]
    for request in (long, short):
        engine.add(request)
    engine.step()
    assert len(short.sequence.output) >= 1
    assert len(long.unread) == 45


def test_b31_rows_advance_by_their_own_counts(models):
    """Field cases B27, B28 and B31: accepted counts that differ, rounds without drafts, an early end, joiners.

    Three of four texts accept (0, 2, 3, 0, 0, 1) nodes in turn, each shifted; one ends after three tokens.
    """
    longer = SamplingParams(temperature=0, max_tokens=40)
    known = {tuple(prompt): plain(models[0], prompt, longer).output for prompt in PROMPTS}
    script = [(3, 0), (3, 2), (3, 3), (0, 0), (0, 0), (2, 1)]
    params = [SamplingParams(temperature=0, max_tokens=most) for most in (40, 3, 40, 31)]
    alone = []
    for prompt, p in zip(PROMPTS, params, strict=True):
        alone.append(
            Engine(HFBackend(models[0]), ScriptedDrafter(known, script, VOCABULARY)).generate([prompt], p)
        )
    engine = Engine(HFBackend(models[0]), ScriptedDrafter(known, script, VOCABULARY), max_batch=3)
    requests = [engine.requests(prompt, p)[0] for prompt, p in zip(PROMPTS, params, strict=True)]
    for request in requests[:3]:
        engine.add(request)
    steps = 0
    while not all(request.done for request in requests):
        if steps == 2:
            engine.add(requests[3])
        before = [len(request.sequence.output) for request in requests]
        for request in engine.step():
            place = next(i for i, other in enumerate(requests) if other is request)
            assert len(request.sequence.output) > before[place], "a row was stalled by its mates"
        steps += 1
    for request, (result,), prompt in zip(requests, alone, PROMPTS, strict=True):
        assert engine.result(request).tokens == result.tokens
        assert list(result.tokens) == known[tuple(prompt)][: request.sequence.params.max_tokens]


@pytest.mark.parametrize("nodes", range(1, 6))
def test_b23_the_target_as_its_own_drafter_accepts_everything(models, nodes):
    """Field case B23: with rows that join, leave, are cancelled and wait again for want of memory."""
    target = Cramped(models[0], lambda batch: len(batch) > 3, MemoryError())
    engine = Engine(target, ModelDrafter(HFBackend(models[0]), nodes), "rejection", prefill=3)
    requests = [engine.requests(p, SamplingParams(temperature=0, max_tokens=20))[0] for p in PROMPTS * 2]
    for step, request in enumerate(requests):
        engine.add(request)
        if step == 5:
            engine.cancel(requests[4])
        if step > 3:
            engine.step()
    while engine.step():
        pass
    assert target.failures > 0
    assert engine.stats.drafted == engine.stats.accepted > 0


@pytest.mark.parametrize("place", range(1, 7))
@pytest.mark.parametrize("cap", range(1, 7))
def test_b32_an_end_and_the_cap_in_one_block(models, place, cap):
    """Field case B32: whichever comes first counts; an end that fills the last place is a stop."""
    text = plain(models[0], PROMPTS[1], GREEDY).output
    end = text[place - 1]
    place = text.index(end) + 1
    engine = Engine(HFBackend(models[0]), ModelDrafter(HFBackend(models[0]), 6), eos=[end])
    mates = engine.generate([PROMPTS[1], PROMPTS[1]], SamplingParams(temperature=0, max_tokens=cap))
    for result in mates:
        assert list(result.tokens) == text[: min(place, cap)]
        assert result.finish_reason == ("stop" if place <= cap else "length")


@pytest.mark.parametrize("most", [0, 1])
def test_b37_a_prompt_at_the_limit_of_the_context(models, most):
    """Field case B37: full, one short of it, in one batch with others; nothing is read beyond the limit."""
    prompts = [[i % VOCABULARY for i in range(length)] for length in (64, 63, 62, 1)]
    engine = make(models, "model", prefill=5)
    params = SamplingParams(temperature=0, max_tokens=most or 2)
    for prompt, result in zip(prompts, engine.generate(prompts, params), strict=True):
        assert len(result.tokens) == min(params.max_tokens, 64 - len(prompt))
        assert list(result.tokens) == plain(models[0], prompt, params).output[: len(result.tokens)]
        assert result.finish_reason == "length"
    none = engine.generate(prompts, SamplingParams(max_tokens=0))
    assert [(result.tokens, result.finish_reason) for result in none] == [((), "length")] * 4
