"""Structured output of the real model, with and without speculation."""

import json
import re

import pytest
import torch

from specproof.engine.loading import chat_tokens, load_engine, load_tokenizer
from specproof.sampling.grammar import compile_grammar
from specproof.tree import Tree
from specproof.types import Contexts, SamplingParams, TokenSequence

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "languages": {"type": "array", "items": {"enum": ["en", "fr", "no"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "languages"],
    "additionalProperties": False,
    "x-guidance": {"whitespace_flexible": False},
}


def fits(value):
    return (
        list(value) == ["name", "age", "languages"]
        and isinstance(value["name"], str)
        and len(value["name"]) <= 40
        and isinstance(value["age"], int)
        and 0 <= value["age"] <= 150
        and 1 <= len(value["languages"]) <= 3
        and set(value["languages"]) <= {"en", "fr", "no"}
    )


@pytest.mark.slow
def test_masks_over_the_default_tokenizer():
    tokenizer = load_tokenizer("default")
    end = tokenizer.eos_token_id
    grammar = compile_grammar("json_schema", json.dumps(SCHEMA), tokenizer, {end})

    def left(output):
        sequence = TokenSequence(list(output), 0, SamplingParams(), 0, frozenset({end}))
        row = grammar(torch.zeros(1, len(tokenizer) + 64), Contexts(sequence, Tree(()), ()))[0]
        return set(row.isfinite().nonzero()[:, 0].tolist())

    sound = tokenizer.encode('{"name":"Zoë \\"Z\\" ☃","age":36,"languages":["en","no"]}')
    for length, token in enumerate(sound):
        assert token in left(sound[:length])
        assert end not in left(sound[:length])
    assert left(sound) == {end}
    for wrong in ('{"age', '{"name":"a","age":"', '{"name":"a","age":1,"languages":[]', '{"name":"a","age":1511'):
        *before, last = tokenizer.encode(wrong)
        assert last not in left(before)


# Objects of the same form, so that prompt lookup has something to look up.
PEOPLE = {"type": "array", "items": SCHEMA, "minItems": 3, "maxItems": 3}
PEOPLE |= {"x-guidance": {"whitespace_flexible": False}}


@pytest.mark.slow
def test_json_is_valid_and_the_same_with_and_without_speculation():
    texts = {}
    for drafter in ("none", "ngram"):
        engine = load_engine("default", drafter=drafter, adaptive=False)
        prompt = chat_tokens(engine.tokenizer, "List three people as JSON with name, age, languages (en, fr, no).")
        each = [SamplingParams(temperature=t, seed=1, max_tokens=200, json_schema=PEOPLE) for t in (0, 1)]
        results = engine.generate([prompt] * 3, [*each, SamplingParams(regex=r"(yes|no)[.!]")])
        assert [result.finish_reason for result in results] == ["stop"] * 3
        for result in results[:2]:
            people = json.loads(result.text)
            assert len(people) == 3
            assert all(fits(person) for person in people)
        assert re.fullmatch(r"(yes|no)[.!]", results[2].text)
        texts[drafter] = results[0].tokens
    assert engine.stats.accepted > 0
    assert texts["none"] == texts["ngram"]
