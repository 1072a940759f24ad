"""The engine against plain decoding written naively: token by token, for every drafter, batch and limit."""

import pytest
import torch

from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.engine import baseline
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.testing.tiny import ARCHITECTURES, recomputed_logits, tiny_model
from specproof.types import GUMBEL, SamplingParams, TokenSequence

from .scripted import ScriptedDrafter

VOCABULARY = 11
PROMPTS = [[1, 2, 3, 4, 1, 2, 3], [5], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 9, 8], [3, 3], [10, 0, 10, 0]]
# Accepts 0, 1, …, all of 4; drafts nothing twice running; accepts everything twice running.
SCRIPT = [(4, 0), (4, 1), (0, 0), (4, 2), (4, 4), (4, 4), (0, 0), (0, 0), (4, 3), (1, 1), (1, 0), (3, 3)]


def plain(model, prompt, params, seed=0, context=1 << 30):
    sequence = TokenSequence(list(prompt), len(prompt), params, seed)
    baseline.decode(lambda tokens: recomputed_logits(model, tokens), sequence, CounterNoise(), context, GUMBEL)
    return sequence


@pytest.fixture(scope="module", params=ARCHITECTURES)
def setting(request):
    """A model and its greedy texts of 200 tokens, recomputed without a cache."""
    model = tiny_model(request.param, VOCABULARY, context=256)
    greedy = SamplingParams(temperature=0, max_tokens=200)
    return model, {tuple(p): plain(model, p, greedy).output for p in PROMPTS}


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("drafter", ["none", "ngram", "model", "scripted"])
def test_greedy_text_equals_plain_greedy_token_by_token(setting, drafter, batch):
    model, texts = setting
    made = {
        "none": lambda: "none",
        "ngram": lambda: NgramDrafter(shortest=1),
        "model": lambda: ModelDrafter(HFBackend(tiny_model("llama", VOCABULARY, 1, context=256)), 3),
        "scripted": lambda: ScriptedDrafter(texts, SCRIPT, VOCABULARY),
    }[drafter]()
    engine = Engine(HFBackend(model), made, adaptive=False)
    params = SamplingParams(temperature=0, max_tokens=200)
    groups = [PROMPTS] if batch == 5 else [[p] for p in PROMPTS[:2]]
    for prompts in groups:
        for prompt, result in zip(prompts, engine.generate(prompts, params), strict=True):
            assert list(result.tokens) == texts[tuple(prompt)]
            assert result.finish_reason == "length"
            if drafter == "scripted":
                assert set(result.stats.histogram) == {0, 1, 2, 3, 4}, "a length of acceptance never happened"


@pytest.mark.parametrize("batch", [1, 3])
def test_more_requests_than_rows_wait_their_turn(setting, batch):
    model, texts = setting
    engine = Engine(HFBackend(model), ScriptedDrafter(texts, SCRIPT, VOCABULARY), max_batch=batch)
    params = [SamplingParams(temperature=0, max_tokens=n) for n in (30, 7, 1, 19, 25)]
    results = engine.generate(PROMPTS, params)
    for prompt, p, result in zip(PROMPTS, params, results, strict=True):
        assert list(result.tokens) == texts[tuple(prompt)][: p.max_tokens]
    assert engine.target.store.rows == []
    assert engine.drafter.freed == 5


@pytest.mark.parametrize("cap", [0, 1, 2, 4, 5, 6])
def test_b36_budgets_are_met_exactly(cap):
    """Field case B36: the target drafts for itself, so every block would overshoot."""
    model = tiny_model("llama", VOCABULARY)
    engine = Engine(HFBackend(model), ModelDrafter(HFBackend(model), 4))
    result = engine.generate([[1, 2]], SamplingParams(temperature=0, max_tokens=cap))[0]
    assert len(result.tokens) == cap == result.stats.tokens
    assert result.finish_reason == "length"


@pytest.mark.parametrize("place", range(1, 7))
def test_b32_an_end_at_every_place_of_a_block(place):
    """Field case B32: the i-th produced token is declared the end; nothing after it is returned or counted."""
    model = tiny_model("llama", VOCABULARY, seed=5)
    params = SamplingParams(temperature=0, max_tokens=20)
    text = plain(model, [1, 2], params).output
    end = text[place - 1]
    expected = text[: text.index(end) + 1]
    engine = Engine(HFBackend(model), ModelDrafter(HFBackend(model), 4), eos=[end])
    streamed = list(engine.stream([1, 2], params))
    assert list(streamed[-1].tokens) == expected
    assert streamed[-1].finish_reason == "stop"
    assert streamed[-1].stats.tokens == len(expected)


@pytest.mark.parametrize("length", [1, 10, 11, 12, 15, 16])
@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_b37_neither_context_is_overrun(architecture, length):
    """Field case B37: target limit 16, drafter limit 12; GPT-2 has no position beyond its limit at all."""
    target = tiny_model(architecture, VOCABULARY, context=16)
    draft = tiny_model(architecture, VOCABULARY, 0, context=12)
    engine = Engine(HFBackend(target), ModelDrafter(HFBackend(draft), 5))
    params = SamplingParams(temperature=0, max_tokens=50)
    prompt = [i % VOCABULARY for i in range(length)]
    result = engine.generate([prompt], params)[0]
    assert list(result.tokens) == plain(target, prompt, params, context=16).output
    assert len(prompt) + len(result.tokens) == 16
    assert result.finish_reason == "length"


@pytest.mark.parametrize("drafter", ["none", "ngram", "model"])
def test_b43_same_seed_same_text_alone_or_in_any_batch(drafter):
    """Field cases B28 and B43: batch mates, their order and their number change nothing."""
    model = tiny_model("llama", VOCABULARY)

    def engine(rows):
        made = ModelDrafter(HFBackend(tiny_model("llama", VOCABULARY, 1)), 3) if drafter == "model" else drafter
        return Engine(HFBackend(model), made, max_batch=rows)

    params = [SamplingParams(seed=s, max_tokens=n) for s, n in ((7, 25), (None, 9), (7, 25), (3, 14), (4, 30))]
    prompts = [PROMPTS[0], PROMPTS[1], PROMPTS[0], PROMPTS[2], PROMPTS[3]]
    together = engine(5).generate(prompts, params)
    assert together[0].tokens == together[2].tokens
    order = [4, 2, 0, 3]
    shuffled = engine(2).generate([prompts[i] for i in order], [params[i] for i in order])
    for i, result in zip(order, shuffled, strict=True):
        assert result.tokens == together[i].tokens
        assert result.tokens == engine(1).generate([prompts[i]], params[i])[0].tokens


@pytest.mark.parametrize("drafter", ["none", "ngram"])
def test_prompt_lookup_and_speculation_off_give_the_plain_text_for_the_same_seed(drafter):
    model = tiny_model("qwen3", VOCABULARY)
    params = SamplingParams(temperature=0.9, top_p=0.95, seed=11, max_tokens=40)
    result = Engine(HFBackend(model), drafter).generate([[1, 2]], params)[0]
    assert list(result.tokens) == plain(model, [1, 2], params, seed=11).output


def test_a_seed_that_was_not_given_is_in_the_result_and_repeats_the_text():
    engine = Engine(HFBackend(tiny_model("llama", VOCABULARY)), "ngram")
    first = engine.generate([[1, 2]], SamplingParams(max_tokens=30))[0]
    assert engine.generate([[1, 2]], SamplingParams(max_tokens=30, seed=first.seed))[0].tokens == first.tokens
    assert engine.generate([[1, 2]], SamplingParams(max_tokens=30))[0].seed != first.seed


def test_logits_that_are_no_distribution_end_with_an_error_and_leave_the_engine_usable():
    model = tiny_model("llama", VOCABULARY)
    engine = Engine(HFBackend(model), "ngram")
    expected = engine.generate([[1, 2]], SamplingParams(temperature=0, max_tokens=10))[0].tokens
    head = model.get_output_embeddings().weight
    saved = head[3].clone()
    with torch.no_grad():
        head[3] = float("nan")
    for result in engine.generate([[1, 2], [3]], SamplingParams(max_tokens=10)):
        assert (result.finish_reason, result.tokens) == ("error", ())
        assert "after 0 tokens of output: logits hold NaN" in result.error
    with torch.no_grad():
        head[3] = saved
    assert engine.target.store.rows == []
    assert engine.generate([[1, 2]], SamplingParams(temperature=0, max_tokens=10))[0].tokens == expected


def test_a_stream_that_is_dropped_frees_its_row():
    engine = Engine(HFBackend(tiny_model("llama", VOCABULARY)), "ngram")
    stream = engine.stream([1, 2], SamplingParams(max_tokens=30))
    next(stream)
    assert len(engine.target.store.rows) == 1
    stream.close()
    assert engine.target.store.rows == []


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "the prompt is empty"),
        ([1] * 65, "65 tokens and the context takes 64"),
        ([1, 99], "token 99 is outside"),
        ([-1], "token -1 is outside"),
        ("text", "needs a tokenizer"),
    ],
)
def test_prompts_that_cannot_be_served_are_refused(prompt, message):
    engine = Engine(HFBackend(tiny_model("llama", VOCABULARY)))
    with pytest.raises(SpecproofError, match=message):
        engine.generate([prompt], SamplingParams())


def test_a_rule_that_does_not_fit_the_drafter_is_refused_when_the_engine_is_built():
    class TreeDrafter(NgramDrafter):
        chains = False

    target = HFBackend(tiny_model("llama", VOCABULARY))
    with pytest.raises(SpecproofError, match="'block' does not take point trees"):
        Engine(target, TreeDrafter(), "block")
    assert Engine(target, TreeDrafter()).rule_name == "walk"
    assert Engine(target, ModelDrafter(target)).rule_name == "block"
    assert Engine(target, NgramDrafter()).rule_name == Engine(target).rule_name == "coupling"


@pytest.mark.parametrize("options", [{"max_batch": 0}, {"budget": -1}])
def test_an_engine_without_rows_or_with_a_negative_budget_is_refused(options):
    with pytest.raises(SpecproofError, match="max_batch="):
        Engine(HFBackend(tiny_model("llama", VOCABULARY)), **options)


def test_results_say_which_rule_ran_and_whether_it_is_lossless():
    target = HFBackend(tiny_model("llama", VOCABULARY))
    result = Engine(target, "ngram", "rejection").generate([[1]], SamplingParams(max_tokens=2))[0]
    assert (result.rule, result.lossless) == ("rejection", True)

    def custom(rows, draft):
        raise AssertionError("not reached: nothing is drafted here")

    engine = Engine(target, "none", custom)
    assert (engine.rule_name, engine.lossless) == ("custom", None)
