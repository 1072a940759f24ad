"""Log-probabilities of what came out: of the target's law, whoever proposed the token, against recomputation."""

import math
from functools import partial

import pytest
import torch
from sampling_settings import VALUES, covering, params_of, shown

from specproof.audit.parameters.plain import plain_row, remembered
from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.engine.engine import Engine
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.tree import Tree
from specproof.types import SamplingParams

DRAFTERS = {
    "ngram-walk": lambda draft: NgramDrafter(shortest=1),
    "model-block": lambda draft: ModelDrafter(HFBackend(draft), 3),
    "model-rejection": lambda draft: ModelDrafter(HFBackend(draft), 3),
    "model-coupling": lambda draft: ModelDrafter(HFBackend(draft), 3, coupled=True),
    "tree-traversal": lambda draft: ModelDrafter(HFBackend(draft), Tree((-1, -1, 0, 1, 2))),
}
PROMPT = [1, 0, 1]


class Watching(Engine):
    """Notes how each committed token came about."""

    def _settle(self, request, step, block, rows, logits):
        kept = super()._settle(request, step, block, rows, logits)
        last = step.path[-1] if step.path else -1
        extra = "replaced" if self.tree.children(last) else "bonus"
        self.came += (["accepted"] * len(step.path) + [extra])[:kept]
        return kept

    def _step(self, requests, fresh=False):
        real, self.came = self.drafting.draft, getattr(self, "came", [])

        def draft(*args):
            made = real(*args)
            (self.tree,) = made.trees
            return made

        self.drafting.draft = draft
        try:
            super()._step(requests, fresh)
        finally:
            self.drafting.draft = real


@pytest.fixture(scope="module")
def models():
    target = tiny_model("llama", 4, seed=0)
    # A draft between the target and another model: some of its tokens are kept, some are not.
    draft = tiny_model("llama", 4, seed=0)
    other = tiny_model("llama", 4, seed=1)
    with torch.no_grad():
        for mine, theirs in zip(draft.parameters(), other.parameters(), strict=True):
            mine.lerp_(theirs, 0.3)
    return target, draft, remembered(partial(recomputed_logits, target))


def check(result, logits, prompt, params, count):
    assert len(result.logprobs) == len(result.tokens)
    text = list(prompt)
    for token, entry in zip(result.tokens, result.logprobs, strict=True):
        own, model = plain_row(logits(text), text, len(prompt), params).log(), logits(text).log_softmax(-1)
        assert entry.token == token
        assert entry.logprob == pytest.approx(float(own[token]), abs=1e-12)
        assert entry.raw == pytest.approx(float(model[token]), abs=1e-12)
        for top, law in ((entry.top, own), (entry.raw_top, model)):
            best = law[law > -math.inf].sort(descending=True).values[:count]
            assert [value for _, value in top] == pytest.approx(best.tolist(), abs=1e-12)
            assert all(law[other] == pytest.approx(value, abs=1e-12) for other, value in top)
        text.append(token)


@pytest.mark.parametrize("name", DRAFTERS)
def test_b42_accepted_replaced_and_bonus_tokens_have_the_targets_logprob(models, name):
    """Field case B42: log p to 1e-12, folded and raw; never the draft's, the residual's or 0."""
    target, draft, logits = models
    engine = Watching(HFBackend(target), DRAFTERS[name](draft), name.split("-")[1])
    engine.came = []
    for seed, values in enumerate([{}, {"temperature": 0.6, "top_k": 3}, {"repetition_penalty": 1.4}]):
        params = SamplingParams(seed=seed, max_tokens=24, logprobs=2, **values)
        (result,) = engine.generate([PROMPT], params)
        check(result, logits, PROMPT, params, 2)
        assert not all(entry.logprob == 0 for entry in result.logprobs)
    assert {"accepted", "replaced", "bonus"} <= set(engine.came)


@pytest.mark.parametrize("values", covering(), ids=shown)
def test_b42_under_every_pair_of_parameters(models, values):
    target, draft, logits = models
    engine = Engine(HFBackend(target), ModelDrafter(HFBackend(draft), 3))
    params = params_of(values | {"seed": 3, "logprobs": 9}, max_tokens=10)
    (result,) = engine.generate([PROMPT], params)
    check(result, logits, PROMPT, params, 9)


def test_b42_a_logprob_of_the_draft_would_be_seen(models):
    """The laws of this file's models differ enough that another row does not pass for the target's."""
    _, draft, logits = models
    mine, theirs = (
        logits(PROMPT).log_softmax(-1),
        remembered(partial(recomputed_logits, draft))(PROMPT).log_softmax(-1),
    )
    assert float((mine - theirs).abs().min()) > 1e-3


@pytest.mark.parametrize("drafter", ["none", "ngram", "model"])
def test_b49_temperature_divides_logits_not_logprobs(drafter):
    """Field case B49: logits 2, 1, 0 at temperature .5; processed -.1429, raw -.4076, never -.8152."""
    table = TableModel.constant(torch.tensor([2.0, 1.0, 0.0]).double().softmax(-1).tolist())
    made = ModelDrafter(TableBackend(table), 3) if drafter == "model" else drafter
    engine = Engine(TableBackend(table), made)
    (result,) = engine.generate([[0, 0, 0, 0]], SamplingParams(temperature=0.5, seed=1, max_tokens=40, logprobs=3))
    firsts = [entry for entry in result.logprobs if entry.token == 0]
    assert len(firsts) > 20
    for entry in firsts:
        assert (entry.logprob, entry.raw) == pytest.approx((-0.1429, -0.4076), abs=5e-5)
    assert result.stats.accepted > 0 or drafter == "none"


def test_greedy_tokens_are_certain_and_their_raw_logprob_is_not(models):
    target, _, logits = models
    params = SamplingParams(temperature=0, max_tokens=12, logprobs=1)
    (result,) = Engine(HFBackend(target), "ngram").generate([PROMPT], params)
    check(result, logits, PROMPT, params, 1)
    assert {entry.logprob for entry in result.logprobs} == {0}
    assert all(entry.raw < 0 for entry in result.logprobs)


def test_logprobs_are_there_only_if_asked_for_and_end_with_the_text(models):
    target, draft, _ = models
    engine = Engine(HFBackend(target), ModelDrafter(HFBackend(draft), 3), eos=[0])
    assert engine.generate([PROMPT], SamplingParams(max_tokens=3))[0].logprobs is None
    for seed in range(10):
        params = SamplingParams(seed=seed, max_tokens=8, logprobs=0)
        (result,) = engine.generate([PROMPT], params)
        assert len(result.logprobs) == len(result.tokens) == result.stats.tokens
        assert all(entry.top == entry.raw_top == () for entry in result.logprobs)


@pytest.mark.parametrize("length", [1, 2, 127, 128, 129, 130, 256, 257, 258])
def test_prompt_logprobs_equal_one_pass_over_the_prompt(length):
    """Also at the borders of the pieces in which a prompt is scored, and for a prompt that fills the context."""
    model = tiny_model("llama", 7, context=258)
    generator = torch.Generator().manual_seed(length)
    prompt = torch.randint(7, (length,), generator=generator).tolist()
    with torch.no_grad():
        expected = model(input_ids=torch.tensor([prompt]), use_cache=False).logits[0].log_softmax(-1)
    engine = Engine(HFBackend(model), "ngram", prefill=100)
    (result,) = engine.generate([prompt], SamplingParams(temperature=0, max_tokens=4, prompt_logprobs=2))
    first, *rest = result.prompt_logprobs
    assert first is None
    assert [entry.token for entry in rest] == prompt[1:]
    for place, entry in enumerate(rest):
        assert entry.logprob is None
        assert entry.raw == pytest.approx(float(expected[place][entry.token]), abs=1e-10)
        assert [value for _, value in entry.raw_top] == pytest.approx(
            expected[place].topk(2).values.tolist(), abs=1e-10
        )
    plain = Engine(HFBackend(model), "none").generate([prompt], SamplingParams(temperature=0, max_tokens=4))[0]
    assert result.tokens == plain.tokens
    assert engine.target.store.rows == []


def test_a_prompt_can_be_scored_alone():
    engine = Engine(HFBackend(tiny_model("llama", 7)))
    (result,) = engine.generate([[1, 2, 3]], SamplingParams(max_tokens=0, prompt_logprobs=0))
    assert (len(result.prompt_logprobs), result.tokens, result.finish_reason) == (3, (), "length")


def test_a_processor_shapes_the_logprob_and_not_the_raw_one(models):
    target, _, logits = models
    params = SamplingParams(max_tokens=6, seed=2, logprobs=1, processors=VALUES["processors"][0])
    (result,) = Engine(HFBackend(target), "ngram").generate([PROMPT], params)
    check(result, logits, PROMPT, params, 1)
    assert any(abs(entry.logprob - entry.raw) > 0.05 for entry in result.logprobs)
