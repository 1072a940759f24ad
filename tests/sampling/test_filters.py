"""`warp` against transformers' own processors, ties, degenerate rows, and errors that name the sequence."""

import pytest
import torch
import transformers as hf
from hypothesis import given, settings
from hypothesis import strategies as st

from specproof.errors import NumericsError, SpecproofError
from specproof.sampling import processors_for, warp, warp_batch
from specproof.tree import Tree
from specproof.types import Draft, SamplingParams, TokenSequence

CHAIN = Draft((Tree.chain(1),) * 4, torch.zeros(4, 1, dtype=torch.long), None, "point")


def reference(logits, params):
    """transformers' warpers in transformers' order."""
    scores, ids = logits.clone(), None
    if params.temperature != 1:
        scores = hf.TemperatureLogitsWarper(params.temperature)(ids, scores)
    if params.top_k:
        scores = hf.TopKLogitsWarper(params.top_k)(ids, scores)
    if params.top_p < 1:
        scores = hf.TopPLogitsWarper(params.top_p)(ids, scores)
    if params.min_p:
        scores = hf.MinPLogitsWarper(params.min_p)(ids, scores)
    return scores.softmax(-1)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    temperature=st.sampled_from([0.1, 0.7, 1.0, 2.5]),
    top_k=st.sampled_from([0, 1, 3, 500, 5000]),
    top_p=st.sampled_from([0.01, 0.5, 0.9, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    seed=st.integers(0, 1000),
    spread=st.sampled_from([0.0, 0.3, 5.0]),
)
def test_every_mix_of_filters_gives_the_law_of_transformers(temperature, top_k, top_p, min_p, seed, spread):
    logits = torch.randn(3, 700, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * max(
        spread, 1e-3
    )
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    assert torch.allclose(warp(logits, params), reference(logits, params), atol=1e-12)


def test_b11_temperature_half_of_the_table_row():
    """Field case B11: log of (.6, .3, .1) at temperature .5."""
    row = warp(torch.tensor([0.6, 0.3, 0.1]).double().log(), SamplingParams(temperature=0.5))
    assert torch.allclose(row, torch.tensor([0.36, 0.09, 0.01]).double() / 0.46, atol=1e-12)


def test_b18_temperature_zero_is_one_hot_at_the_first_maximum():
    """Field case B18: equal top logits give the lower index, however many rows are scored together."""
    logits = torch.tensor([1.0, 2.0, 2.0, 0.0])
    greedy = SamplingParams(temperature=0)
    assert warp(logits, greedy).tolist() == [0, 1, 0, 0]
    wide = torch.zeros(5, 3, 50_000)
    wide[..., [17, 40_000]] = 3.0
    assert torch.equal(warp(wide, greedy).argmax(-1), torch.full((5, 3), 17))


def test_top_p_keeps_all_tokens_that_tie_with_the_last_one():
    row = warp(torch.tensor([0.4, 0.2, 0.2, 0.2]).double().log(), SamplingParams(top_p=0.5))
    assert torch.allclose(row, torch.tensor([0.4, 0.2, 0.2, 0.2]).double())


def test_a_nucleus_wider_than_the_first_guess_is_found():
    logits = torch.zeros(1, 2000)
    logits[0, 1000:] = -1.0
    row = warp(logits, SamplingParams(top_p=0.6))
    assert int((row > 0).sum()) == 1000


@pytest.mark.parametrize("temperature", [1e-30, 1e-4, 1e30])
def test_extreme_temperatures_give_rows(temperature):
    row = warp(torch.tensor([1.0, 3.0, 2.0]), SamplingParams(temperature=temperature))
    assert torch.isfinite(row).all()
    assert row.sum() == pytest.approx(1)


def test_low_precision_logits_give_float32_rows():
    assert warp(torch.randn(4).bfloat16(), SamplingParams()).dtype == torch.float32
    assert warp(torch.randn(4).double(), SamplingParams()).dtype == torch.float64


def test_each_sequence_has_its_own_parameters():
    logits = torch.randn(4, 2, 9, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    params = [SamplingParams(temperature=t) for t in (1.0, 1.0, 0.0, 0.5)]
    batch = [TokenSequence([0], 1, p, 0) for p in params]
    rows, broken = warp_batch(logits, batch, CHAIN)
    assert not broken.any()
    for b, p in enumerate(params):
        assert torch.equal(rows[b], warp(logits[b], p))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_bad_logits_are_marked_and_leave_the_other_rows_alone(bad, temperature):
    logits = torch.zeros(4, 2, 4)
    logits[1, 1, 2] = bad
    batch = [TokenSequence([0], 1, SamplingParams(temperature=temperature, top_p=0.9, min_p=0.1), 0)] * 4
    rows, broken = warp_batch(logits, batch, CHAIN)
    assert broken.nonzero().tolist() == [[1, 1]]
    assert torch.allclose(rows.sum(-1), torch.ones(4, 2))
    with pytest.raises(NumericsError):
        warp(logits[1, 1], batch[0].params)


def test_a_row_without_a_finite_logit_is_an_error():
    with pytest.raises(NumericsError):
        warp(torch.full((3,), -torch.inf), SamplingParams())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -1),
        ("min_p", -0.1),
        ("min_p", 1.5),
        ("max_tokens", -1),
        ("seed", -1),
        ("repetition_penalty", 0),
        ("repetition_penalty", float("inf")),
        ("presence_penalty", float("nan")),
        ("frequency_penalty", float("inf")),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", {"5": 1.0}),
        ("logit_bias", {5: float("inf")}),
        ("bad_words", "one text"),
        ("bad_words", [5]),
        ("bad_words", [[]]),
        ("bad_words", [""]),
        ("min_tokens", -1),
        ("min_tokens", 129),
        ("stop", "one text"),
        ("stop", [""]),
        ("stop", [5]),
        ("stop_token_ids", ["5"]),
        ("n", 0),
        ("logprobs", -1),
        ("prompt_logprobs", -1),
    ],
)
def test_parameters_outside_their_range_are_refused_by_name(field, value):
    with pytest.raises(SpecproofError, match=f"{field}="):
        SamplingParams(**{field: value})


def test_lists_and_tuples_are_the_same_request():
    lists = SamplingParams(bad_words=["a", [1, 2]], stop=["x"], stop_token_ids=[3])
    assert lists == SamplingParams(bad_words=("a", (1, 2)), stop=("x",), stop_token_ids=(3,))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"logit_bias": {9: 1.0}}, "logit_bias: token 9 is not in the vocabulary, 0 to 7"),
        ({"bad_words": [[1, 8]]}, "bad_words: token 8 is not"),
        ({"bad_words": [[-1]]}, "bad_words: token -1 is not"),
        ({"bad_words": ["a"]}, "the text 'a' needs a tokenizer"),
        ({"stop_token_ids": [8]}, "stop_token_ids: token 8 is not"),
    ],
)
def test_tokens_outside_the_vocabulary_are_refused_with_the_request(values, message):
    with pytest.raises(SpecproofError, match=message):
        processors_for(SamplingParams(**values), 8)


def test_a_bad_text_is_forbidden_as_the_tokenizer_spells_it(word_tokenizer):
    (words,) = processors_for(SamplingParams(bad_words=["a b", "c"]), 8, word_tokenizer)
    assert words.words == ((1, 2), (3,))
    with pytest.raises(SpecproofError, match="'zebra' has no tokens"):
        processors_for(SamplingParams(bad_words=["zebra"]), 8, word_tokenizer)


def test_an_unknown_parameter_is_an_error():
    with pytest.raises(SpecproofError, match="unknown sampling parameter 'topp'"):
        SamplingParams.from_dict({"topp": 0.5})
