"""n completions of a prompt: their seeds, their order, and their independence of how many run at once."""

import pytest

from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.noise import completion_seed
from specproof.testing.tiny import tiny_model
from specproof.types import SamplingParams

PROMPTS = [[1, 2, 3], [4], [5, 5]]


def engine(rows=16, drafter="ngram"):
    if drafter == "model":
        drafter = ModelDrafter(HFBackend(tiny_model("llama", 9, 1)), 3)
    return Engine(HFBackend(tiny_model("llama", 9)), drafter, max_batch=rows, eos=[0])


@pytest.mark.parametrize("drafter", ["none", "ngram", "model"])
def test_completions_are_the_texts_of_separate_requests_with_the_derived_seeds(drafter):
    params = SamplingParams(n=5, seed=7, max_tokens=15)
    results = engine(drafter=drafter).generate([[1, 2, 3]], params)
    assert [result.index for result in results] == [0, 1, 2, 3, 4]
    assert results[0].seed == 7
    for index, result in enumerate(results):
        assert result.seed == completion_seed(7, index)
        alone = SamplingParams(seed=result.seed, max_tokens=15)
        assert engine(drafter=drafter).generate([[1, 2, 3]], alone)[0].tokens == result.tokens
    assert len({result.tokens for result in results}) > 1


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_more_completions_than_rows_in_the_order_of_the_prompts(rows):
    params = [SamplingParams(n=n, seed=seed, max_tokens=12) for n, seed in ((5, 1), (1, 2), (3, 1))]
    results = engine(rows).generate(PROMPTS, params)
    assert [(len(PROMPTS[0]), i) for i in range(5)] + [(1, 0)] + [(2, i) for i in range(3)] == [
        (result.prompt_tokens, result.index) for result in results
    ]
    together = engine(16).generate(PROMPTS, params)
    assert [result.tokens for result in results] == [result.tokens for result in together]


def test_a_drawn_seed_gives_all_completions_again():
    first = engine().generate([[1, 2]], SamplingParams(n=3, max_tokens=12))
    again = engine().generate([[1, 2]], SamplingParams(n=3, max_tokens=12, seed=first[0].seed))
    assert [result.tokens for result in again] == [result.tokens for result in first]


def test_seeds_of_completions_do_not_meet():
    seeds = {completion_seed(seed, index) for seed in range(100) for index in range(100)}
    assert len(seeds) == 100 * 100
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_each_completion_is_penalised_for_its_own_text():
    """Else the greedy completions would not be alike."""
    params = SamplingParams(temperature=0, n=3, frequency_penalty=0.9, max_tokens=12)
    results = engine(2).generate([[1, 2]], params)
    assert len({result.tokens for result in results}) == 1


def test_a_stream_gives_every_completion_and_each_ends_once():
    results = list(engine().stream([1, 2], SamplingParams(n=3, seed=4, max_tokens=9)))
    last = {result.index: result for result in results}
    assert sorted(last) == [0, 1, 2]
    for index in range(3):
        assert sum(r.index == index and r.finish_reason is not None for r in results) == 1
    collected = engine().generate([[1, 2]], SamplingParams(n=3, seed=4, max_tokens=9))
    assert [last[i].tokens for i in range(3)] == [result.tokens for result in collected]


@pytest.mark.parametrize("n", [0, -1])
def test_less_than_one_completion_is_refused(n):
    with pytest.raises(SpecproofError, match="n="):
        SamplingParams(n=n)
