"""The exact law of the whole engine under sampling parameters, against transformers' processors, token by token.

Every pair of values of two parameters occurs in some setting; each setting runs on every kind of draft.
"""

from functools import partial
from importlib import import_module

import pytest
import torch
from sampling_settings import END, VALUES, covering, params_of, shown
from toy_tokenizers import pieces, stopped_by, utf8_bytes

from specproof.audit.engine_exact import audit_engine, engine_law
from specproof.audit.engine_suite import PROMPT, build_engine
from specproof.audit.parameters.plain import distance, plain_law, remembered
from specproof.sampling.bans import MinTokens
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.types import Contexts, SamplingParams

SETTINGS = covering()
DRAFTERS = {
    "none": ("walk",),
    "ngram": ("walk", "block", "rejection", "coupling"),
    "model": ("block", "rejection", "coupling", "walk"),
    "tree-iid": ("traversal", "walk", "siblings"),
    "tree-point": ("walk", "coupling"),
    "tree-without-replacement": ("siblings",),
}
# By default each setting meets three kinds of draft, with the rules in turn, and sampled trees some; all are slow.
IN_TURN = [
    (values, drafter, DRAFTERS[drafter][number % len(DRAFTERS[drafter])])
    for number, values in enumerate(SETTINGS)
    for drafter in ("ngram", "model", "tree-point", *(["tree-iid"] if number in (9, 10, 13, 15) else []))
]
ALL = [(values, drafter, rule) for values in SETTINGS for drafter, rules in DRAFTERS.items() for rule in rules]


@pytest.fixture(scope="module")
def logits():
    return remembered(partial(recomputed_logits, tiny_model("llama", 4, seed=0)))


def request(values, drafter, length):
    """Trees are two levels deep only where five tokens are left; two tokens a row keep their paths countable."""
    if not drafter.startswith("tree"):
        return params_of(values, length)
    return params_of(values | {"top_k": 2}, 5)


def found_distance(logits, drafter, rule, params, tokenizer=None, ends=(END,)):
    """Total variation between what the engine's texts follow and what plain decoding gives."""
    engine = build_engine(drafter, rule)
    engine.tokenizer = tokenizer
    stopped = stopped_by(tokenizer, params) if params.stop else None
    expected = plain_law(logits, list(PROMPT), params, ends, stopped)
    assert stopped is None or any(map(stopped, expected)), "no text comes to a stop string"
    law, _, rounds = engine_law(engine, list(PROMPT), params)
    assert rounds >= 1 or drafter == "none", "nothing was drafted"
    return distance(law, expected)


@pytest.mark.parametrize(
    ("values", "drafter", "rule"), IN_TURN, ids=lambda v: v if isinstance(v, str) else shown(v)
)
def test_every_pair_of_parameters_keeps_the_law(logits, values, drafter, rule):
    """Field cases B11, B12, B13 and B14."""
    assert found_distance(logits, drafter, rule, request(values, drafter, 3)) <= 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(("values", "drafter", "rule"), ALL, ids=lambda v: v if isinstance(v, str) else shown(v))
def test_every_rule_and_drafter_with_one_more_token(logits, values, drafter, rule):
    assert found_distance(logits, drafter, rule, request(values, drafter, 4)) <= 1e-12


@pytest.mark.parametrize(("drafter", "rule"), [("ngram", "walk"), ("model", "block"), ("tree-iid", "traversal")])
class TestEnds:
    @pytest.mark.parametrize("least", [0, 2])
    def test_further_end_tokens(self, logits, drafter, rule, least):
        params = SamplingParams(max_tokens=3, stop_token_ids=[1], min_tokens=least)
        assert found_distance(logits, drafter, rule, params, ends=(END, 1)) <= 1e-12

    def test_the_end_token_ignored_and_another_kept(self, logits, drafter, rule):
        params = SamplingParams(max_tokens=3, ignore_eos=True, stop_token_ids=[2], min_tokens=1)
        assert found_distance(logits, drafter, rule, params, ends=(2,)) <= 1e-12

    @pytest.mark.parametrize(
        ("tokenizer", "stop", "least"),
        [
            (pieces("a", "ab", "b"), ["ba"], 0),
            (pieces("a", "ab", "b"), ["aab", "bb"], 0),
            (pieces("a", "ab", "b"), ["a"], 3),
            (pieces("xa", "by", "b"), ["ab", "yx"], 0),
            (utf8_bytes(0x61, 0xC3, 0xA9), ["é"], 0),
            (utf8_bytes(0x61, 0xC3, 0xA9), ["aé", "aaa"], 2),
        ],
    )
    def test_b33_stop_strings_over_tokens_inside_blocks_and_at_the_cap(
        self, logits, drafter, rule, tokenizer, stop, least
    ):
        """Field case B33: whichever of stop string, end token and cap comes first in token order."""
        longest = 3 if drafter == "model" else 4  # it has the most paths
        params = SamplingParams(max_tokens=longest, top_k=3, stop=stop, min_tokens=least)
        assert found_distance(logits, drafter, rule, params, tokenizer) <= 1e-12


def test_an_audit_takes_stop_strings_too(logits):
    tokenizer, params = pieces("a", "ab", "b"), SamplingParams(max_tokens=3, stop=["ba"])
    engine = build_engine("model", "block")
    engine.tokenizer = tokenizer
    stopped = stopped_by(tokenizer, params)
    result = audit_engine(engine, logits, list(PROMPT), params, stopped=lambda text: stopped(text.output))
    assert result.ok, str(result)


class TestPlantedFaults:
    """Faults of releases, each seen by the law of a whole engine that drafts."""

    def seen(self, logits, values, max_tokens=3):
        """Seen where the target drafts for itself and blocks are long; the independent side has no such fault."""
        return found_distance(logits, "model", "walk", params_of(values, max_tokens)) > 1e-3

    def test_b14_a_block_counts_once(self, logits, monkeypatch):
        real = Contexts.path
        monkeypatch.setattr(Contexts, "path", lambda contexts, row: real(contexts, row)[-1:])
        assert self.seen(logits, {"presence_penalty": VALUES["presence_penalty"][0]})

    def test_b14_min_tokens_counts_steps(self, logits, monkeypatch):
        steps = {}

        def counted(self, scores, contexts):
            lengths = steps.setdefault(contexts.sequence.seed, set())
            lengths.add(len(contexts.sequence.tokens))
            if len(lengths) - 1 < self.least:
                scores[:, list(contexts.sequence.ends)] = -torch.inf
            return scores

        monkeypatch.setattr(MinTokens, "__call__", counted)
        assert self.seen(logits, {"min_tokens": 2})

    def test_b12_the_bonus_row_is_not_processed(self, logits, monkeypatch):
        folding = import_module("specproof.sampling.fold")
        real = folding.fold

        def skipping(scores, batch, draft, start=None):
            made = real(scores, batch, draft, start).clone()
            for b, tree in enumerate(draft.trees):
                if len(tree) and not start:
                    made[b, len(tree)] = scores[b, len(tree)]
            return made

        monkeypatch.setattr(folding, "fold", skipping)
        assert self.seen(logits, {"logit_bias": {1: 1.5}})
        assert self.seen(logits, {"bad_words": ((2,),)})

    def test_a_bad_word_over_the_border_of_the_draft(self, logits, monkeypatch):
        real = Contexts.path
        monkeypatch.setattr(
            Contexts, "tokens", lambda contexts, row: real(contexts, row) or contexts.sequence.tokens
        )
        assert self.seen(logits, {"bad_words": ((1, 2, 3), (1, 1, 2), (1, 3, 1))})
