"""A drafter that breaks its contract costs the request it broke it for the speculation, and nobody any text."""

from dataclasses import replace

import pytest
import torch

from specproof.backends.hf import HFBackend
from specproof.drafters.ngram import NgramDrafter
from specproof.engine.engine import Engine
from specproof.testing.tiny import tiny_model
from specproof.tree import Tree
from specproof.types import Draft, SamplingParams

from .faulty import VOCABULARY, Spoiled, plain

VICTIM = [7, 7, 2]
PROMPTS = [[1, 2, 3], VICTIM, [5], [9, 8, 7, 6]]
GREEDY = SamplingParams(temperature=0, max_tokens=24)


@pytest.fixture(scope="module")
def models():
    return tiny_model("llama", VOCABULARY), tiny_model("llama", VOCABULARY, 1)


@pytest.fixture(scope="module")
def texts(models):
    return [tuple(plain(models[0], prompt, GREEDY).output) for prompt in PROMPTS]


def with_token(token):
    def spoil(draft, place):
        tokens = draft.tokens.clone()
        tokens[place, 0] = token
        return replace(draft, tokens=tokens)

    return spoil


def with_tree(tree):
    """For the victim alone; wider tensors where it needs them."""

    def spoil(draft, place):
        trees = list(draft.trees)
        trees[place] = tree
        grow = max(0, len(tree) - draft.tokens.shape[1])
        tokens = torch.nn.functional.pad(draft.tokens, (0, grow))
        rows = torch.nn.functional.pad(draft.rows, (0, 0, 0, grow), value=1 / VOCABULARY)
        return Draft(tuple(trees), tokens, rows, draft.drawn)

    return spoil


def with_row(value):
    def spoil(draft, place):
        rows = draft.rows.clone()
        rows[place, 0, 0] = value
        return replace(draft, rows=rows)

    return spoil


def raising(draft, place):
    raise KeyError("no such entry")


FAULTS = {
    "token outside": (with_token(VOCABULARY), "token 11 is outside"),
    "token negative": (with_token(-1), "token -1 is outside"),
    "more than its budget": (with_tree(Tree.chain(17)), "at most"),
    "a tree for a rule of chains": (with_tree(Tree((-1, -1))), "does not take iid trees"),
    "rows with NaN": (with_row(torch.nan), "NaN"),
    "rows with a negative": (with_row(-0.5), "no distributions"),
    "rows that do not sum to 1": (with_row(3.0), "no distributions"),
    "no rows": (lambda draft, place: replace(draft, rows=None), "rows None"),
    "rows of another vocabulary": (lambda d, place: replace(d, rows=d.rows[..., :-1]), "rows"),
    "tokens of another batch": (lambda draft, place: replace(draft, tokens=draft.tokens[:0]), "tokens"),
    "tokens that are no numbers": (lambda d, place: replace(d, tokens=d.tokens.double()), "tokens"),
    "drafts for others": (lambda draft, place: replace(draft, trees=draft.trees * 2), "at most"),
    "drawn otherwise": (lambda draft, place: replace(draft, drawn="top_and_one"), "'top_and_one'"),
    "no draft at all": (lambda draft, place: None, "NoneType"),
    "raises": (raising, "no such entry"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_speculation_ends_for_the_victim_only_and_no_text_changes(models, texts, fault):
    spoil, words = FAULTS[fault]
    engine = Engine(HFBackend(models[0]), Spoiled(HFBackend(models[1]), spoil, VICTIM), adaptive=False)
    results = engine.generate(PROMPTS, GREEDY)
    assert [result.tokens for result in results] == texts
    for prompt, result in zip(PROMPTS, results, strict=True):
        if prompt != VICTIM:
            assert result.warnings == ()
            assert result.stats.drafted > 20
            continue
        (warning,) = result.warnings
        assert warning.startswith("speculation is off for this request: the drafter failed")
        assert words in warning
        assert result.stats.drafted <= 3
    assert engine.drafter.backend.store.rows == []
    assert engine.target.store.rows == []


@pytest.mark.parametrize("most", [1, 4])
def test_a_drafter_that_fails_at_the_commit(models, texts, most):
    drafter = Spoiled(HFBackend(models[1]), raising, VICTIM, since=10**9, told=ValueError("lost count"))
    results = Engine(HFBackend(models[0]), drafter, max_batch=most, adaptive=False).generate(PROMPTS, GREEDY)
    assert [result.tokens for result in results] == texts
    assert [bool(result.warnings) for result in results] == [prompt == VICTIM for prompt in PROMPTS]
    assert "lost count" in results[1].warnings[0]


def test_a_failure_that_is_nobodys_ends_speculation_for_all_and_says_so(models, texts):
    """It fails for every batch and for no single request: nobody is to pay for it in every step."""

    class Lonely(NgramDrafter):
        calls = 0

        def draft(self, batch, budget, noise):
            self.calls += 1
            if len(batch) > 1:
                raise RuntimeError("one at a time")
            return super().draft(batch, budget, noise)

    engine = Engine(HFBackend(models[0]), Lonely(shortest=1), adaptive=False)
    results = engine.generate(PROMPTS, GREEDY)
    assert [result.tokens for result in results] == texts
    assert all("one at a time" in result.warnings[0] for result in results)
    assert engine.drafter.calls == 1 + len(PROMPTS)


def test_a_drafter_that_cannot_forget(models, texts):
    class Clinging(NgramDrafter):
        def free(self, batch):
            raise OSError("busy")

    results = Engine(HFBackend(models[0]), Clinging(shortest=1), max_batch=2, adaptive=False).generate(
        PROMPTS, GREEDY
    )
    assert [result.tokens for result in results] == texts
    assert all("busy" in result.warnings[0] for result in results)


def test_padding_may_hold_anything(models, texts):
    """Field case B38: a sentinel of -1 never reaches an embedding; nor does a width that nobody needs matter."""

    def pad(draft, place):
        tokens = torch.nn.functional.pad(draft.tokens, (0, 2), value=-1)
        rows = torch.nn.functional.pad(draft.rows, (0, 0, 0, 2), value=torch.nan)
        for b, tree in enumerate(draft.trees):
            tokens[b, len(tree) :] = -1
            rows[b, len(tree) :] = torch.nan  # a chain's last row is one that nothing was drawn from
        return replace(draft, tokens=tokens, rows=rows)

    params = [replace(GREEDY, max_tokens=most) for most in (24, 24, 3, 7)]  # budgets that differ
    for rule in ("rejection", "block"):
        drafter = Spoiled(HFBackend(models[1]), pad, VICTIM, since=1)
        results = Engine(HFBackend(models[0]), drafter, rule, adaptive=False).generate(PROMPTS, params)
        assert [r.tokens for r in results] == [t[: p.max_tokens] for t, p in zip(texts, params, strict=True)]
        assert all(result.warnings == () for result in results)
        assert drafter.rounds > 1
