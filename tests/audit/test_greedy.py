"""Temperature 0: equal texts, near-ties told from faults, and the real model."""

from dataclasses import replace

import pytest
import torch

from specproof.audit.greedy import compare_greedy
from specproof.audit.mutants.cache import stale_cache
from specproof.audit.prompts import PROMPTS
from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.engine.loading import chat_tokens, load_engine
from specproof.testing.tiny import tiny_model
from specproof.types import SamplingParams


def engine():
    target, draft = tiny_model("llama", 11), tiny_model("llama", 11, seed=1)
    return Engine(HFBackend(target), ModelDrafter(HFBackend(draft), 3))


def test_equal_texts_are_equal():
    results = list(compare_greedy(engine(), [[1, 2, 3], [4]], 40))
    assert [str(r) for r in results] == ["EQUAL: prompt 0: 40 tokens", "EQUAL: prompt 1: 40 tokens"]


def test_b19_a_fault_is_no_near_tie():
    """Field case B19: a stale cache parts the texts where the gap is wide."""
    faulty = stale_cache(engine())
    results = []
    for seed in range(6):
        results += compare_greedy(faulty, [[1, 2, 3, seed]], 40)
    assert any(not r.ok and str(r).startswith("DIFFERENT") for r in results)


def test_b19_noise_below_the_gap_is_a_near_tie(monkeypatch):
    """Field case B19: logits that depend on the width by 1e-6, and a tie closer than that."""
    one = engine()
    head = one.target.model.get_output_embeddings().weight
    with torch.no_grad():
        head[4] = head[3]
    inner = one.target.forward

    def forward(batch, draft, start=0):
        output = inner(batch, draft, start)
        output.logits[..., 4] += 1e-6 if output.logits.shape[1] > 1 else -1e-6
        return output

    monkeypatch.setattr(one.target, "forward", torch.inference_mode()(forward))
    results = list(compare_greedy(one, [[i, 2, 3] for i in range(6)], 40))
    assert any(r.gap is not None for r in results)
    assert all(r.ok for r in results)


def test_b19_a_third_token_where_two_others_tie_is_a_fault(monkeypatch):
    """What counts is how far below the top the token is that came, not how close the best two are."""
    one = engine()
    head = one.target.model.get_output_embeddings().weight
    with torch.no_grad():
        head[4] = head[3]
    params = SamplingParams(temperature=0, max_tokens=40)
    texts = {start: one.generate([[start, 2, 3]], params)[0].tokens for start in range(11)}
    start = next(start for start, text in texts.items() if 3 in text)
    plain, place, inner = texts[start], texts[start].index(3), one.generate

    def generate(prompts, params):
        (result,) = inner(prompts, params)
        return [replace(result, tokens=(*plain[:place], 9, *plain[place + 1 :]))]

    monkeypatch.setattr(one, "generate", generate)
    (result,) = compare_greedy(one, [[start, 2, 3]], 40)
    assert result.agree == place
    assert not result.ok


@pytest.mark.slow
def test_the_real_model_gives_the_same_text_with_and_without_speculation():
    """Twenty prompts of 128 tokens in float32; prints where and by what gap texts part, if any do."""
    torch.set_num_threads(2)
    real = load_engine("default", drafter="ngram")
    prompts = [chat_tokens(real.tokenizer, text) for text in PROMPTS]
    results = list(compare_greedy(real, prompts, 128))
    print("\n".join(map(str, results)))
    assert len(results) == 20
    assert all(result.ok for result in results)
    assert real.stats.accepted > 100
