"""What a watched request records: the tokens that came out, with the probabilities that naive decoding gives."""

from dataclasses import replace

import pytest

from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.sampling import warp_next
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.tree import Tree
from specproof.types import SamplingParams

PROMPT = [1, 2, 3, 1, 2, 3, 1, 2]
PARAMS = SamplingParams(temperature=0.8, top_k=6, max_tokens=24, seed=3)
MODELS = [tiny_model("llama", 8, seed, context=64) for seed in (0, 1)]


def watch(drawn, budget=16, params=PARAMS):
    drafter = ModelDrafter(HFBackend(MODELS[1]), Tree.levels((2, 2)), drawn)
    engine = Engine(HFBackend(MODELS[0]), drafter, budget=budget, adaptive=False)
    (request,) = engine.requests(PROMPT, params)
    request.watched = []
    for _ in engine.run([request]):
        pass
    return request


def naive(which, request, context):
    """The model's row after these tokens, recomputed."""
    sequence = replace(request.sequence, tokens=list(context))
    return warp_next(recomputed_logits(MODELS[which], context), sequence).tolist()


@pytest.mark.parametrize("drawn", ["iid", "without_replacement", "top_and_one", "point"])
def test_every_probability_is_the_one_recomputed(drawn):
    request = watch(drawn)
    context = list(PROMPT)
    kinds = set()
    for step in request.watched:
        tree = Tree(step.parents)
        for node, parent in enumerate(step.parents):
            path = [step.tokens[i] for i in tree.path(parent)]
            rows = [naive(which, request, context + path) for which in (0, 1)]
            assert step.target[node] == pytest.approx(rows[0][step.tokens[node]], abs=1e-9)
            last = tree.children(parent)[-1] == node
            if drawn == "point" or (drawn == "top_and_one" and not last):
                assert step.draft[node] is None
            else:
                assert step.draft[node] == pytest.approx(rows[1][step.tokens[node]], abs=1e-9)
        end = step.path[-1] if step.path else -1
        path = [step.tokens[node] for node in step.path]
        assert step.extra_target == pytest.approx(naive(0, request, context + path)[step.extra], abs=1e-9)
        if step.extra_draft is not None:
            assert step.extra_draft == pytest.approx(naive(1, request, context + path)[step.extra], abs=1e-9)
        assert (step.extra_draft is not None) == (drawn != "point" and tree.children(end) != ())
        expected = "plain" if not step.parents else "correction" if tree.children(end) else "bonus"
        assert step.kind == expected
        kinds.add(step.kind)
        context += [*path, step.extra][: step.kept]
    assert context == request.sequence.tokens
    assert {"correction", "bonus"} <= kinds, "a kind of step never happened"


def test_without_a_draft_every_token_is_plain():
    request = watch("iid", budget=0)
    assert {step.kind for step in request.watched} == {"plain"}
    assert [step.extra for step in request.watched] == request.sequence.output


def test_a_step_that_was_cut_says_how_much_was_kept():
    free = watch("iid").watched
    long = next(i for i, step in enumerate(free) if step.kept >= 3)
    tokens = sum(step.kept for step in free[:long]) + 1
    end = watch("iid").sequence.output[tokens - 1]
    request = watch("iid", params=replace(PARAMS, stop_token_ids=(end,)))
    assert sum(step.kept for step in request.watched) == len(request.sequence.output)
    assert request.watched[-1].kept <= len(request.watched[-1].path) + 1
    assert request.sequence.output[-1] == end


def test_nobody_watching_records_nothing():
    engine = Engine(HFBackend(MODELS[0]), "ngram")
    (request,) = engine.requests(PROMPT, PARAMS)
    for _ in engine.run([request]):
        pass
    assert request.watched is None
