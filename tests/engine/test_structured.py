"""The exact law of the whole engine under a regular expression: every rule, chains and trees, point and drawn."""

import re
from itertools import product

import pytest
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from specproof.audit.engine_exact import audit_engine, engine_law
from specproof.audit.engine_suite import END, PROMPT, VOCABULARY, build_engine
from specproof.rules import sound_rules
from specproof.sampling.grammar import Grammar
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.types import SamplingParams

RULES = [rule.name for rule in sound_rules()]
DRAFTERS = ("ngram", "model", "tree-iid", "tree-without-replacement", "tree-top-and-one", "tree-point")
PATTERN = "(ab|b)*c"
LETTERS = " abc"  # by token; 0 ends the text
PARAMS = SamplingParams(temperature=0.8, max_tokens=4, regex=PATTERN)


def letters():
    vocabulary = {"<end>": END, "a": 1, "b": 2, "c": 3}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<end>"))
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<end>"])
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")


TOKENIZER = letters()
MODEL = tiny_model("llama", VOCABULARY, seed=0)


def structured(drafter, rule):
    engine = build_engine(drafter, rule)
    if engine is not None:
        engine.tokenizer = TOKENIZER
    return engine


def fits(output):
    """Whether some text of the pattern begins so: it takes at most two letters more."""
    if END in output[:-1]:
        return False
    begin = "".join(LETTERS[token] for token in output)
    if output[-1] == END:
        return re.fullmatch(PATTERN, begin[:-1]) is not None
    rests = ("".join(rest) for n in range(3) for rest in product("abc", repeat=n))
    return any(re.fullmatch(PATTERN, begin + rest) for rest in rests)


def naive_law(params):
    """Every text by probability: logits recomputed, what does not fit taken out, renormalised."""
    law, todo = {}, [((), 1.0)]
    while todo:
        output, probability = todo.pop()
        if len(output) == params.max_tokens or END in output:
            law[output] = probability
            continue
        weights = (recomputed_logits(MODEL, [*PROMPT, *output]) / params.temperature).exp().tolist()
        left = {token: w for token, w in enumerate(weights) if fits([*output, token])}
        for token, weight in left.items():
            todo.append(((*output, token), probability * weight / sum(left.values())))
    return law


def distance(found, expected):
    return sum(abs(found.get(text, 0.0) - expected.get(text, 0.0)) for text in {*found, *expected}) / 2


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_law_is_masked_and_renormalised(drafter):
    expected = naive_law(PARAMS)
    assert len(expected) > 10
    rules = 0
    for rule in RULES:
        engine = structured(drafter, rule)
        if engine is not None:
            found, _, rounds = engine_law(engine, list(PROMPT), PARAMS)
            assert distance(found, expected) <= 1e-12, rule
            assert rounds > 0
            rules += 1
    assert rules > 0


def test_the_auditors_own_reference_agrees():
    result = audit_engine(
        structured("model", "rejection"), lambda tokens: recomputed_logits(MODEL, tokens), list(PROMPT), PARAMS
    )
    assert result.ok, str(result)


def test_a_bonus_row_without_a_mask_shows_in_the_law(monkeypatch):
    sound = Grammar.__call__

    def faulty(self, logits, contexts):
        last = logits[-1].clone()
        return (
            torch.cat([sound(self, logits, contexts)[:-1], last[None]])
            if len(logits) > 1
            else sound(self, logits, contexts)
        )

    monkeypatch.setattr(Grammar, "__call__", faulty)
    found, _, _ = engine_law(structured("model", "rejection"), list(PROMPT), PARAMS)
    assert distance(found, naive_law(PARAMS)) > 1e-3
