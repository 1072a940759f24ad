"""Rows of rollouts computed again, and a second epoch that drafts the first."""

from dataclasses import replace

import pytest
import torch

from specproof.backends.hf import HFBackend
from specproof.drafters.past import law_of
from specproof.drafters.replay import ReplayDrafter
from specproof.engine.engine import Engine
from specproof.rollout.replay import remember, tokens_of
from specproof.rollout.worker import RolloutWorker
from specproof.sampling import warp_next
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.types import SamplingParams

VOCABULARY, END = 8, 0
PARAMS = SamplingParams(temperature=0.9, top_k=6, presence_penalty=0.5, max_tokens=40, min_tokens=2, seed=3)


@pytest.fixture(scope="module")
def epoch():
    """An engine with its first epoch's trajectories."""
    engine = Engine(HFBackend(tiny_model("llama", VOCABULARY)), "ngram", "walk", eos=(END,))
    return engine, RolloutWorker(engine).rollout([[1, 2], [3]], PARAMS, 3)


def test_rows_are_those_that_tokens_were_drawn_from(epoch):
    engine, trajectories = epoch
    model = tiny_model("llama", VOCABULARY)
    for one, past in zip(trajectories, remember(engine, trajectories, 0, torch.float64), strict=True):
        assert (past.prompt, past.tokens, past.seed) == (one.prompt_ids, one.completion_ids, one.seed)
        request = engine.requests(list(one.prompt_ids), PARAMS)[0]
        request.read(len(request.unread))
        for token, row, told in zip(past.tokens, past.rows, one.logprobs, strict=True):
            expected = warp_next(recomputed_logits(model, request.sequence.tokens), request.sequence)
            law = law_of(row, VOCABULARY, torch.float64)
            assert torch.allclose(law, expected, atol=1e-9)
            assert float(law[token].log()) == pytest.approx(told, abs=1e-6)
            assert row.chance == pytest.approx(1, abs=1e-9)
            request.sequence.tokens.append(token)


def test_what_came_after_new_weights_is_left_out(epoch):
    engine, trajectories = epoch
    updated = [replace(one, updates=((1, 4),)) for one in trajectories]
    assert [past.tokens for past in tokens_of(updated)] == [one.completion_ids[:1] for one in trajectories]
    assert all(len(past.rows) == 1 for past in remember(engine, updated))


@pytest.mark.parametrize("rows", [True, False])
def test_an_epoch_under_the_same_weights_is_accepted_whole(epoch, rows):
    """Rows that did not move accept every drafted token; so does the same noise."""
    engine, trajectories = epoch
    if rows:
        pasts = list(remember(engine, trajectories, 0, torch.float64))
    else:
        coupled = Engine(HFBackend(tiny_model("llama", VOCABULARY)), "none", "coupling", eos=(END,))
        trajectories = RolloutWorker(coupled).rollout([[1, 2], [3]], PARAMS, 3)
        pasts = list(tokens_of(trajectories))
    drafter = ReplayDrafter(pasts, VOCABULARY, rows=rows, dtype=torch.float64)
    rule = "rejection" if rows else "coupling"
    # The whole old text in one draft: after a shorter one a fresh token stands, which may leave it.
    target = HFBackend(tiny_model("llama", VOCABULARY))
    again = Engine(target, drafter, rule, eos=(END,), budget=64, adaptive=False)
    found = RolloutWorker(again).rollout([[1, 2], [3]], PARAMS, 3)
    assert again.stats.accepted == again.stats.drafted > 0
    assert [one.completion_ids[:-1] for one in found] == [one.completion_ids[:-1] for one in trajectories]
    assert found[0].drafter == "replay"
