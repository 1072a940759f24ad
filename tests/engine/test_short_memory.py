"""Memory that does not suffice makes requests wait, changes no text, and ends only what could never run."""

from dataclasses import replace

import pytest
import torch

from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.engine import engine as engine_module
from specproof.engine.engine import Engine
from specproof.testing.tiny import tiny_model
from specproof.types import SamplingParams

from .faulty import VOCABULARY, Cramped, plain

PROMPTS = [[1, 2, 3], [7, 7, 2], [5], [9, 8, 7, 6, 5, 4, 3, 2], [3] * 12, [10]]
PARAMS = [
    SamplingParams(temperature=t, seed=seed, max_tokens=most, logprobs=1, prompt_logprobs=1)
    for seed, (t, most) in enumerate([(0, 20), (1, 12), (0.7, 9), (0, 16), (1, 20), (0.8, 5)])
]
ERRORS = {
    "accelerator": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    "host": RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
    "host, windows": RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes"),
    "library": RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    "python": MemoryError(),
}
LIMITS = {
    "rows": lambda batch: len(batch) > 2,
    "tokens": lambda batch: sum(len(sequence.tokens) for sequence in batch) > 40,
}


@pytest.fixture(scope="module")
def models():
    return tiny_model("llama", VOCABULARY), tiny_model("llama", VOCABULARY, 1)


def bare(result):
    """What memory must not change."""
    return result.tokens, result.finish_reason, rounded(result.logprobs), rounded(result.prompt_logprobs)


def rounded(entries):
    return [entry and (entry.token, round(entry.raw, 9), [t for t, _ in entry.raw_top]) for entry in entries]


@pytest.fixture(scope="module")
def alone(models):
    """Each request by itself with all the memory there is."""
    engine = Engine(HFBackend(models[0]), "none", "coupling")
    return [bare(engine.generate([p], q)[0]) for p, q in zip(PROMPTS, PARAMS, strict=True)]


@pytest.mark.parametrize(
    ("error", "limit", "drafter"),
    [(error, "rows", "ngram") for error in ERRORS]
    + [("accelerator", "rows", "model"), ("accelerator", "tokens", "ngram"), ("host", "tokens", "model")],
)
def test_requests_that_do_not_fit_wait_and_lose_nothing(models, alone, error, limit, drafter):
    target = Cramped(models[0], LIMITS[limit], ERRORS[error])
    made = ModelDrafter(HFBackend(models[1]), 3) if drafter == "model" else NgramDrafter(shortest=1)
    engine = Engine(target, made, "coupling", prefill=5)
    requests = [request for p, q in zip(PROMPTS, PARAMS, strict=True) for request in engine.requests(p, q)]
    for _ in engine.run(requests):
        running = [request.sequence for request in engine.scheduler.running]
        assert all(row.sequence in running for row in target.store.rows), "who waits still takes memory"
    results = [engine.result(request) for request in requests]
    assert [bare(result) for result in results] == alone
    assert target.failures > 0
    assert target.store.rows == []
    assert drafter == "ngram" or made.backend.store.rows == []
    assert not any(result.warnings or result.error for result in results)


def test_memory_is_not_asked_for_again_and_again(models):
    """After a failure no more requests run at once than did fit, until one of them is done."""
    target = Cramped(models[0], LIMITS["rows"], ERRORS["host"])
    engine = Engine(target, "none")
    engine.generate(PROMPTS, PARAMS)
    assert target.failures <= 4 + len(PROMPTS)


def test_a_request_that_never_fits_ends_with_an_error_and_the_others_go_on(models, alone):
    target = Cramped(models[0], lambda batch: any(len(s.tokens) > 14 for s in batch), ERRORS["accelerator"])
    results = Engine(target, "none", "coupling").generate(PROMPTS, PARAMS)
    for result, expected, prompt in zip(results, alone, PROMPTS, strict=True):
        # Texts of up to 14 tokens are read; the token after them still comes out.
        fits = expected[0][: 15 - len(prompt)]
        assert result.tokens == fits
        assert len(result.logprobs) == len(fits)
        if len(fits) < len(expected[0]):
            assert result.finish_reason == "error"
            assert result.error.startswith("out of memory with no other request running: CUDA out of memory")
        else:
            assert (result.finish_reason, result.error) == (expected[1], None)
    assert sum(result.finish_reason == "error" for result in results) == 3
    assert target.store.rows == []


def test_other_failures_are_not_taken_for_a_lack_of_memory(models):
    target = Cramped(models[0], LIMITS["rows"], RuntimeError("device-side assert triggered"))
    engine = Engine(target, "none")
    with pytest.raises(RuntimeError, match="device-side assert"):
        engine.generate(PROMPTS, PARAMS)
    assert engine.scheduler.running == []
    assert target.store.rows == []
    assert engine.generate(PROMPTS[:2], PARAMS[:2])[0].tokens == tuple(
        plain(models[0], PROMPTS[0], PARAMS[0]).output
    )


@pytest.mark.parametrize("call", [*range(1, 9), 26])
def test_memory_that_ends_in_the_middle_of_a_commit(models, alone, monkeypatch, call):
    """Some of a batch were committed, some were not, and those that were may be done: six calls a step."""
    calls, inner = [], engine_module.of_block

    def cramped(*arguments):
        calls.append(1)
        if len(calls) == call:
            raise ERRORS["python"]
        return inner(*arguments)

    monkeypatch.setattr(engine_module, "of_block", cramped)
    stop = alone[0][0][4]
    assert alone[0][0].index(stop) == 4  # at the fifth step, of which call 25 is the first
    params = [replace(PARAMS[0], stop_token_ids=(stop,)), *PARAMS[1:]]
    results = Engine(HFBackend(models[0]), "none", "coupling").generate(PROMPTS, params)
    assert [bare(result) for result in results[1:]] == alone[1:]
    assert results[0].tokens == alone[0][0][:5]
    assert len(results[0].logprobs) == 5
    assert len(calls) > 26


@pytest.mark.parametrize("call", range(1, 12))
def test_memory_that_ends_while_a_prompt_is_scored(models, alone, monkeypatch, call):
    """The prompt's own scores take a sequence of their own in the store, which may not stay."""
    calls, inner = [], engine_module.of_prompt

    def cramped(target, *arguments):
        calls.append(1)
        if len(calls) == call:
            forward, target.forward = target.forward, fail
            try:
                return inner(target, *arguments)
            finally:
                target.forward = forward
        return inner(target, *arguments)

    def fail(*arguments):
        HFBackend.forward(target, *arguments)
        raise ERRORS["python"]

    target = HFBackend(models[0])
    monkeypatch.setattr(engine_module, "of_prompt", cramped)
    results = Engine(target, "none", "coupling", prefill=2).generate(PROMPTS, PARAMS)
    assert [bare(result) for result in results] == alone
    assert target.store.rows == []


def test_a_drafter_without_memory_costs_the_speculation_only(models, alone):
    drafter = ModelDrafter(Cramped(models[1], lambda batch: True, ERRORS["accelerator"]), 3)
    results = Engine(HFBackend(models[0]), drafter, "coupling").generate(PROMPTS, PARAMS)
    assert [bare(result) for result in results] == alone
    assert all("out of memory" in result.warnings[0] for result in results)
