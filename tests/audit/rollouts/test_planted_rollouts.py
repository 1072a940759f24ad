"""Whole audits of rollouts: clean ones, and one for each planted fault. Alpha is 1e-4 in each."""

import json

import numpy as np
import pytest
from scipy.stats import binom
from written import END, PARAMS, folded, plainly, policy, scaled, table, tempered, write

from specproof.audit.answer import Verdict
from specproof.audit.rollouts.plan import RolloutPlan
from specproof.audit.rollouts.read import rollouts_of
from specproof.audit.rollouts.run import audit_rollouts
from specproof.audit.rollouts.scoring import Checkpoints
from specproof.audit.white.faults import lenient, redrawn

# No filter: none of its tokens is impossible.
PLAIN = {"temperature": 0.7, "max_tokens": 24}
PLAN = RolloutPlan(alpha=1e-4, detect=0.35)


def audit(texts, *, plan=PLAN, model=None, draft=None, stale=None):
    against = Checkpoints(
        policy(table() if model is None else model), draft and policy(draft), stale and policy(stale)
    )
    return audit_rollouts(rollouts_of(texts), against, plan)


@pytest.mark.parametrize("told", [None, folded])
def test_clean_rollouts_are_lossless(told):
    result = audit(write(table(), 60, told=told))
    assert result.verdict is Verdict.LOSSLESS, result
    assert result.exit_code == 0
    assert 0 < result.power < PLAN.detect
    assert sum(check.level for check in result.checks) <= PLAN.alpha * (1 + 1e-12)
    assert json.dumps(result.answer().document())
    assert (result.seen.log_ratio is None) == (told is None)


def test_temperature_ignored():
    result = audit(write(table(), 120, drawn=PARAMS | {"temperature": 1.0}))
    assert result.verdict is Verdict.BIASED
    assert "temperature times" in result.reason


def test_top_k_ignored():
    result = audit(write(table(), 8, drawn=PARAMS | {"top_k": 0}))
    assert result.verdict is Verdict.BIASED
    assert "probability 0" in result.reason


def test_a_stale_policy_shows_in_the_tokens_with_its_checkpoint():
    stale = table(apart=0.6)
    result = audit(write(stale, 150, stated=PLAIN), stale=stale)
    assert result.verdict is Verdict.BIASED
    assert "the stale checkpoint wrote the tokens" in result.reason
    assert 0.1 < result.tv < 0.3
    alone = audit(write(table(apart=0.2), 60, stated=PLAIN))
    assert alone.verdict is Verdict.LOSSLESS, "a nearer one, in fewer texts, shows nowhere"


def test_a_stale_policy_shows_in_the_logprobs():
    """With its checkpoint it is named; without, only what the told law and the tokens say of each other is."""
    stale = table(apart=0.35)
    named = audit(write(stale, 20, told=folded), stale=stale)
    assert named.verdict is Verdict.BIASED
    assert "logprobs are those of --stale (folded" in named.reason
    alone = audit(write(stale, 200, stated=PLAIN, told=folded))
    assert alone.verdict is Verdict.BIASED
    assert "no known convention" in alone.reason
    assert "it and not --model wrote the tokens" in alone.reason


def test_logprobs_that_were_computed_by_a_stale_policy():
    """The tokens are the policy's: they do not follow the numbers."""
    stale = table(apart=0.5)
    texts = list(write(table(), 200, told=folded))
    for text, other in zip(texts, _told_by(stale, texts), strict=True):
        text["logprobs"] = other
    result = audit(texts)
    assert result.verdict is Verdict.BIASED
    assert "The tokens rather follow --model" in result.reason


def _told_by(model, texts):
    from written import row

    for text in texts:
        tokens = text["prompt_ids"] + text["completion_ids"]
        rows = [row(model, last, tuple(PARAMS.items())) for last in tokens[:-1]]
        # A filter may leave out what the other keeps.
        yield [float(np.log(max(r[t], 1e-3))) for r, t in zip(rows, tokens[1:], strict=True)]


CONVENTIONS = {"raw": plainly, "tempered": tempered, "folded": folded, "scaled": scaled}


@pytest.mark.parametrize("name", CONVENTIONS)
def test_the_convention_of_logprobs_is_named(name):
    texts = list(write(table(), 60, told=CONVENTIONS[name]))
    result = audit(texts)
    assert result.verdict is Verdict.LOSSLESS, result
    assert name in result.seen.nearest("logprobs", "--model").convention.split(" = ")
    assert any("no law" in note for note in result.seen.notes) == (name == "scaled")
    other = audit(texts, plan=RolloutPlan(alpha=1e-4, detect=0.35, logprobs="raw" if name != "raw" else "folded"))
    assert other.verdict is Verdict.BIASED
    assert "as stated" in other.reason


def test_conventions_that_coincide_are_one():
    stated = {"temperature": 1.0, "max_tokens": 24}
    result = audit(write(table(), 60, stated=stated, told=folded))
    assert result.seen.nearest("logprobs", "--model").convention == "folded = tempered = raw = penalised = scaled"


def test_a_lenient_rule_shows_with_rows_of_the_draft():
    """Without them nothing is known of the rule, and the verdict says so."""
    draft = table(apart=0.9)
    texts = list(write(table(), 500, draft=draft, law=lambda p, q: lenient(p, q, 2.0)))
    result = audit(texts, draft=draft)
    assert result.verdict is Verdict.BIASED
    alone = audit(texts)
    assert alone.verdict is Verdict.INCONCLUSIVE or alone.verdict is Verdict.BIASED
    clean = audit(list(write(table(), 60, draft=draft, law=lambda p, q: p)))
    assert clean.verdict is Verdict.INCONCLUSIVE
    assert "--draft-model" in clean.reason
    assert audit(write(table(), 200, draft=draft, law=lambda p, q: p), draft=draft).verdict is Verdict.LOSSLESS


def test_the_published_reuse_rule_is_named_with_the_stale_checkpoint():
    stale = table(apart=1.2)
    result = audit(write(table(), 300, draft=stale, law=redrawn), stale=stale)
    assert result.verdict is Verdict.BIASED
    assert "SPEC-RL as published" in result.reason


def test_padding_after_the_end_is_refused():
    texts = list(write(table(), 8))
    texts[0] |= {"completion_ids": [3, END, END], "finish_reason": "stop"}
    result = audit(texts)
    assert result.verdict is Verdict.BIASED
    assert "padding" in result.reason


def test_greedy_rollouts_are_exact_or_wrong():
    stated = {"temperature": 0, "max_tokens": 24}
    result = audit(write(table(), 20, stated=stated))
    assert result.verdict is Verdict.EXACT
    wrong = audit(write(table(), 20, stated=stated, drawn=stated | {"temperature": 0.5}))
    assert wrong.verdict is Verdict.BIASED
    assert "temperature 0" in wrong.reason


@pytest.mark.parametrize("keep_end", [True, False])
def test_false_alarms_however_texts_end(keep_end):
    """60 clean files at alpha 0.1, half of all texts ended; more alarms than this come once in 10,000 tries."""
    plan = RolloutPlan(alpha=0.1)
    alarms = 0
    for seed in range(60):
        result = audit(write(table(), 6, seed=seed, keep_end=keep_end), plan=plan)
        alarms += result.verdict is Verdict.BIASED
    assert alarms <= binom.isf(1e-4, 60, 0.1)


def test_an_end_that_is_left_out_is_scored():
    """Dropping it would favour all other tokens: a fault that the bets would see as a bias of the texts."""
    kept = audit(write(table(), 30, seed=3))
    left = audit(write(table(), 30, seed=3, keep_end=False))
    assert left.seen.bets.tokens == kept.seen.bets.tokens
    assert left.seen.bets.log_e == pytest.approx(kept.seen.bets.log_e)
    cut = [text | {"finish_reason": "length"} for text in write(table(), 800, seed=3, keep_end=False)]
    assert audit(cut).verdict is Verdict.BIASED, "said to be cut where they really ended"
