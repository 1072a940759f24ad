"""The first event in token order wins, and the budget is met exactly."""

import pytest

from specproof.sampling import ends_for
from specproof.stopping import commit, cut, room
from specproof.types import SamplingParams, Step, TokenSequence

END = 9


def sequence(max_tokens=10, prompt=(1, 2), ends=(END,), **params):
    params = SamplingParams(max_tokens=max_tokens, **params)
    return TokenSequence(list(prompt), len(prompt), params, 0, ends_for(params, ends))


@pytest.mark.parametrize("place", range(5))
def test_b32_an_end_at_every_place_of_a_block_ends_the_text_there(place):
    block = [5, 5, 5, 5, 5]
    block[place] = END
    text = sequence()
    assert commit(text, block, 100) == place + 1
    assert text.output == block[: place + 1]
    assert text.finish_reason == "stop"


def test_two_end_tokens_are_both_honoured():
    text = sequence(ends=(END, 8))
    commit(text, [5, 8, END], 100)
    assert text.output == [5, 8]


@pytest.mark.parametrize(("cap", "output", "reason"), [(5, [7, 8, END], "stop"), (2, [7, 8], "length")])
def test_b33_stop_and_cap_in_one_block(cap, output, reason):
    text = sequence(cap)
    commit(text, [7, 8, END, 5, 5, 5], 100)
    assert (text.output, text.finish_reason) == (output, reason)


def test_b33_an_end_that_fills_the_last_place_is_a_stop():
    text = sequence(3)
    commit(text, [7, 8, END, 5], 100)
    assert (text.output, text.finish_reason) == ([7, 8, END], "stop")


@pytest.mark.parametrize("cap", [0, 1, 2, 4, 5, 6])
def test_b36_the_budget_is_met_exactly(cap):
    text = sequence(cap)
    assert commit(text, [5] * 6, 100) == cap
    assert len(text.output) == cap
    assert text.finish_reason == "length"


def test_the_context_limit_counts_the_prompt():
    text = sequence(10)
    assert room(text, 5) == 3
    commit(text, [5] * 9, 5)
    assert len(text.tokens) == 5
    assert text.finish_reason == "length"


def test_ignoring_the_end_goes_on():
    text = sequence(3, ignore_eos=True)
    commit(text, [END, END, 5], 100)
    assert text.output == [END, END, 5]


def test_an_unfinished_text_has_no_reason():
    text = sequence()
    commit(text, [5], 100)
    assert text.finish_reason is None


def test_a_cut_shortens_the_path():
    assert cut(Step((0, 2, 5), 7), 2).path == (0, 2)
    assert cut(Step((0,), 7), 2).path == (0,)
