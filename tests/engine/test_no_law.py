"""Where the target gives no law a request ends, with the tokens before it and the place; nothing else ends."""

import pytest
import torch

from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.engine.engine import Engine
from specproof.testing.tiny import tiny_model
from specproof.tree import Tree
from specproof.types import Draft, Output, SamplingParams

from .faulty import VOCABULARY, Holes, plain
from .scripted import ScriptedDrafter

PROMPTS = [[1, 2, 3], [7, 7, 2], [5]]
GREEDY = SamplingParams(temperature=0, max_tokens=20)
BAD = 6


@pytest.fixture(scope="module")
def model():
    return tiny_model("llama", VOCABULARY)


@pytest.fixture(scope="module")
def texts(model):
    """Longer than asked for, so that a script can draft beyond the end."""
    longer = SamplingParams(temperature=0, max_tokens=30)
    return {tuple(prompt): plain(model, prompt, longer).output for prompt in PROMPTS}


def holes(model, hole):
    target = Holes(model)
    target.hole = hole
    return target


@pytest.mark.parametrize("after", range(10))
@pytest.mark.parametrize("drafter", ["none", "ngram", "scripted"])
def test_a_text_ends_where_there_is_no_next_token_and_its_mates_go_on(model, texts, drafter, after):
    """A hole on the way, met at the root or at an accepted node: at every place of a block of five."""

    def hole(text):
        return text[: len(PROMPTS[1])] == PROMPTS[1] and len(text) == len(PROMPTS[1]) + after

    made = {
        "none": lambda: "none",
        "ngram": lambda: NgramDrafter(shortest=1),
        "scripted": lambda: ScriptedDrafter(texts, [(4, 4), (4, 2)], VOCABULARY),
    }[drafter]()
    engine = Engine(holes(model, hole), made, adaptive=False)
    results = engine.generate(PROMPTS, GREEDY)
    for prompt, result in zip(PROMPTS, results, strict=True):
        text = tuple(texts[tuple(prompt)][:20])
        if prompt != PROMPTS[1]:
            assert (result.tokens, result.finish_reason, result.error) == (text, "length", None)
            continue
        assert (result.tokens, result.finish_reason) == (text[:after], "error")
        assert result.error == f"no next token after {after} tokens of output: logits hold NaN or infinity"
        assert result.stats.tokens == after
    assert engine.target.store.rows == []


@pytest.mark.parametrize("script", [[(4, 0)], [(4, 1)], [(4, 3)], [(0, 0), (5, 2)]])
def test_a_hole_below_a_rejected_node_is_not_noticed(model, texts, script):
    """Every drafted text that is not the right one has no law; none of them is ever committed."""

    def hole(text):
        return not any(text == (list(prompt) + output)[: len(text)] for prompt, output in texts.items())

    engine = Engine(holes(model, hole), ScriptedDrafter(texts, script, VOCABULARY), adaptive=False)
    for prompt, result in zip(PROMPTS, engine.generate(PROMPTS, GREEDY), strict=True):
        assert (result.tokens, result.error) == (tuple(texts[tuple(prompt)][:20]), None)


def test_a_hole_behind_the_end_of_a_text_is_not_noticed(model, texts):
    """The last block is cut, by max_tokens or an end, before the place that has no law."""
    lengths = {tuple(prompt): len(prompt) + 18 for prompt in PROMPTS}
    target = holes(
        model, lambda text: any(text[: len(p)] == list(p) and len(text) > n for p, n in lengths.items())
    )
    engine = Engine(target, ScriptedDrafter(texts, [(4, 4)], VOCABULARY), adaptive=False)
    params = [SamplingParams(temperature=0, max_tokens=19, stop_token_ids=ends) for ends in ((), (3,), (5,))]
    for prompt, p, result in zip(PROMPTS, params, engine.generate(PROMPTS, params), strict=True):
        expected = texts[tuple(prompt)][:19]
        for end in p.stop_token_ids:
            expected = expected[: expected.index(end) + 1] if end in expected else expected
        assert list(result.tokens) == expected
        assert result.finish_reason in ("length", "stop")


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("index", [0, 4])
def test_one_bad_logit_is_enough(model, texts, index, value):
    class One(HFBackend):
        def forward(self, batch, draft, start=None):
            logits = super().forward(batch, draft, start).logits.clone()
            for b, sequence in enumerate(batch):
                if sequence.tokens[:3] == PROMPTS[0] and len(sequence.output) > 4:
                    logits[b, 0, index] = value
            return Output(logits)

    results = Engine(One(model), "none").generate(PROMPTS, GREEDY)
    assert (len(results[0].tokens), results[0].finish_reason) == (5, "error")
    assert [result.finish_reason for result in results[1:]] == ["length", "length"]


class Spoiler(NgramDrafter):
    """Drafts the bad token in every block, in a tree that goes on below it and beside it."""

    chains = False

    def __init__(self, place):
        self.place = place
        super().__init__(shortest=1)

    def draft(self, batch, budget, noise):
        tree = Tree((-1, -1, 0, 1, 2))
        trees = tuple(tree if most >= 5 else Tree.chain(min(most, 1)) for most in budget)
        tokens = [[(s.tokens[-1] + node) % BAD for node in range(5)] for s in batch]
        for row in tokens:
            row[self.place] = BAD
        return Draft(trees, torch.tensor(tokens), None, "point")


@pytest.mark.parametrize("rule", ["walk", "coupling"])
@pytest.mark.parametrize("place", range(5))
def test_a_drafted_token_that_breaks_the_model_leaves_no_trace(rule, place):
    """The token's embedding is NaN, so its keys and values are: masked, they would spread to every later row.

    It may not come out (bad_words), so it is never accepted. Rows are freed and taken again: four prompts, two
    rows; texts of different lengths, so that leftovers lie within what is read.
    """
    model = tiny_model("llama", VOCABULARY)
    target = HFBackend(model)
    with torch.no_grad():
        model.get_input_embeddings().weight[BAD] = torch.nan
    prompts = [*PROMPTS, [4, 4, 4, 4, 9, 9]]
    params = [
        SamplingParams(temperature=t, seed=seed, max_tokens=most, bad_words=((BAD,),))
        for seed, (t, most) in enumerate([(1, 8), (0, 25), (0.8, 20), (1, 25)])
    ]
    exact = [p for p in range(4) if rule == "coupling" or params[p].temperature == 0]
    engine = Engine(target, Spoiler(place), rule, max_batch=2, adaptive=False)
    results = engine.generate(prompts, params)
    assert all((r.finish_reason, r.error, r.warnings) == ("length", None, ()) for r in results)
    for p in exact:
        assert list(results[p].tokens) == plain(model, prompts[p], params[p], rule).output
    assert sum(result.stats.drafted for result in results) > 100


@pytest.mark.parametrize("rule", ["walk", "coupling"])
def test_a_committed_token_that_breaks_the_model_ends_its_own_text_only(rule):
    """The same model, with the token allowed: naive decoding cannot go on after it either."""
    model = tiny_model("llama", VOCABULARY)
    target = HFBackend(model)
    with torch.no_grad():
        model.get_input_embeddings().weight[BAD] = torch.nan
    heat = 1.2 if rule == "coupling" else 0
    params = [SamplingParams(temperature=heat, seed=s, max_tokens=2 + 9 * (s % 3)) for s in range(6)]
    prompts = [[token, 1] for token in (0, 1, 2, 3, 4, 5)]
    results = Engine(target, Spoiler(1), rule, max_batch=4, adaptive=False).generate(prompts, params)
    for prompt, p, result in zip(prompts, params, results, strict=True):
        expected = plain(model, prompt, p, rule)
        assert list(result.tokens) == expected.output
        assert result.finish_reason == expected.finish_reason
        if expected.finish_reason == "error":
            assert result.tokens[-1] == BAD
            assert f"after {len(expected.output)} tokens" in result.error
    if rule == "coupling":
        assert {result.finish_reason for result in results} == {"error", "length"}


def test_a_draft_model_that_breaks_turns_speculation_off_for_the_text_that_broke_it(model, texts):
    draft_model = tiny_model("llama", VOCABULARY, 1)
    backend = HFBackend(draft_model)
    with torch.no_grad():
        draft_model.get_input_embeddings().weight[7] = torch.nan  # in the second prompt only
    allowed = SamplingParams(temperature=0, max_tokens=20, bad_words=((7,),))
    expected = [plain(model, prompt, allowed).output for prompt in PROMPTS]
    results = Engine(HFBackend(model), ModelDrafter(backend, 3)).generate(PROMPTS, allowed)
    assert [list(result.tokens) for result in results] == expected
    assert [bool(result.warnings) for result in results] == [False, True, False]
    assert "the draft model's logits hold NaN" in results[1].warnings[0]
