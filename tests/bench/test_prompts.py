"""What a bench writes about."""

from collections import Counter

import pytest

from specproof.audit import prompts as audited
from specproof.bench.prompts import KINDS, PLAIN, Prompt, built_in_prompts, first_of_each, read_prompts
from specproof.errors import SpecproofError
from specproof.train.prompts import built_in_prompts as trained_on


def test_three_prompts_of_each_of_six_kinds():
    prompts = built_in_prompts()
    assert Counter(prompt.kind for prompt in prompts) == dict.fromkeys(KINDS, 3)
    assert list(dict.fromkeys(prompt.kind for prompt in prompts)) == list(KINDS)
    assert len({prompt.text for prompt in prompts}) == len(prompts)


def test_no_prompt_is_one_that_heads_are_trained_on_or_audits_run_over():
    others = set(trained_on()) | set(audited.PROMPTS)
    assert not others & {prompt.text for prompt in built_in_prompts()}


def test_files_of_json_lines_and_of_plain_lines(tmp_path):
    path = tmp_path / "prompts"
    path.write_text('{"kind": "law", "prompt": "one\\ntwo"}\n\n{"prompt": "three"}\n  four  \n')
    assert read_prompts(path) == [Prompt("law", "one\ntwo"), Prompt(PLAIN, "three"), Prompt(PLAIN, "four")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n \n", "has no prompts"),
        ('{"kind": "law"}', r"line 1 has the keys \['kind'\]"),
        ('a\n{"prompt": "b", "temperature": 1}', "line 2 has the keys"),
        ('{"prompt": ', "line 1 is no JSON"),
        ('{"prompt": ""}', "line 1 has an empty value"),
        ('{"kind": 3, "prompt": "a"}', "or one that is no text"),
    ],
)
def test_lines_that_are_neither(tmp_path, text, message):
    path = tmp_path / "prompts"
    path.write_text(text)
    with pytest.raises(SpecproofError, match=message):
        read_prompts(path)


def test_no_such_file(tmp_path):
    with pytest.raises(SpecproofError, match="cannot read --prompts"):
        read_prompts(tmp_path / "missing")


def test_the_first_of_each_kind():
    prompts = [Prompt("a", "1"), Prompt("b", "2"), Prompt("a", "3"), Prompt("a", "4")]
    assert first_of_each(prompts, 2) == [Prompt("a", "1"), Prompt("b", "2"), Prompt("a", "3")]
