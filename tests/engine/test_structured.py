"""The exact law of the whole engine under a regular expression: every rule, chains and trees, point and drawn."""

import re
from itertools import product

import pytest
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from specproof.audit.engine_exact import audit_engine, engine_law
from specproof.audit.engine_suite import END, PROMPT, VOCABULARY, build_engine
from specproof.backends.hf import HFBackend
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
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
    # Prompt lookup: a drafter that scores rows would stumble over the forbidden token before the target does.
    found, _, _ = engine_law(structured("ngram", "rejection"), list(PROMPT), PARAMS)
    assert distance(found, naive_law(PARAMS)) > 1e-3


def build(**options):
    return Engine(HFBackend(MODEL), "ngram", tokenizer=TOKENIZER, eos=(END,), **options)


def spelled(result):
    return "".join(LETTERS[token] for token in result.tokens[:-1])


def test_texts_of_many_requests_fit_and_do_not_depend_on_batch_mates():
    patterns = [PATTERN, "a{3}(b|c)", "[ab]{2,}", None, "(ab)*c"]
    each = [SamplingParams(regex=p, seed=i, n=2, max_tokens=12) for i, p in enumerate(patterns)]
    engine = build(max_batch=4)
    together = engine.generate([list(PROMPT)] * len(each), each)
    alone = [result for params in each for result in build().generate([list(PROMPT)], params)]
    assert [result.tokens for result in together] == [result.tokens for result in alone]
    for number, result in enumerate(together):
        if (pattern := patterns[number // 2]) and result.finish_reason == "stop":
            assert re.fullmatch(pattern, spelled(result))
    assert sum(result.finish_reason == "stop" for result in together) >= 6


def test_one_request_ends_in_an_error_that_names_the_grammar():
    stuck, sound = SamplingParams(regex="a(x|yz)", max_tokens=4), SamplingParams(regex="ab", max_tokens=4)
    first, second = build().generate([list(PROMPT)] * 2, [stuck, sound])
    assert (first.finish_reason, first.tokens) == ("error", (1,))
    assert "regex" in first.error
    assert (second.finish_reason, second.tokens) == ("stop", (1, 2, END))


def test_a_longer_text_than_there_can_be_is_an_error_too():
    (result,) = build().generate([list(PROMPT)], SamplingParams(regex="ab", min_tokens=5))
    assert (result.finish_reason, result.tokens) == ("error", (1, 2))
    assert "everything was forbidden" in result.error


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"regex": "a", "json_schema": "{}"}, "json_schema and regex are not allowed together"),
        ({"regex": 3}, "regex=3 is not allowed"),
        ({"json_schema": ["a"]}, "json_schema="),
        ({"grammar": {}}, "grammar="),
        ({"regex": "a", "ignore_eos": True}, "ends the text"),
        ({"regex": "(a"}, "unclosed group"),
    ],
)
def test_what_cannot_be_honoured_is_refused(given, message):
    with pytest.raises(SpecproofError, match=message):
        build().generate([list(PROMPT)], SamplingParams(**given))


def test_a_stop_token_ends_a_text_where_the_models_end_does_not():
    params = SamplingParams(regex="[ab]{2}", ignore_eos=True, stop_token_ids=(3,), max_tokens=9)
    (result,) = build().generate([list(PROMPT)], params)
    assert len(result.tokens) == 3
    assert result.tokens[-1] == 3
