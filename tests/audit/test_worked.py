from fractions import Fraction as F

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproof.audit.given import parse_row, total_variation
from specproof.audit.worked import worked_example
from specproof.errors import SpecproofError


def example(target, draft, names=None):
    return worked_example(parse_row(target, "target"), parse_row(draft, "draft"), names)


def fractions(*values):
    return tuple(F(value) for value in values)


@pytest.fixture
def cats():
    return example("0.6,0.3,0.1", "0.4,0.5,0.1", ["cat", "dog", "fish"])


def test_cat_dog_fish_is_worked_in_exact_fractions(cats):
    assert cats.target == fractions("3/5", "3/10", "1/10")
    assert cats.ratio == fractions("3/2", "3/5", 1)
    assert cats.accept == fractions(1, "3/5", 1)
    assert cats.minimum == cats.accepted == fractions("2/5", "3/10", "1/10")
    assert cats.excess == cats.redrawn == fractions("1/5", 0, 0)
    assert cats.residual == fractions(1, 0, 0)
    assert cats.reject == cats.z == cats.tv == F("1/5")
    assert cats.recovered == fractions("3/5", "3/10", "1/10")
    assert cats.ok


def test_cat_dog_fish_mistakes_by_hand(cats):
    # 0.4 + 0.2 x 0.6, ...; (target + draft) / 2; and draft² = (16, 25, 1) / 42 with acceptances 1, 3/5, 1.
    resample, absolute, temperature = cats.mistakes
    assert (resample.name, resample.law, resample.tv) == (
        "resample_target",
        fractions("0.52", "0.36", "0.12"),
        F("0.08"),
    )
    assert (absolute.name, absolute.law, absolute.tv) == (
        "absolute_difference",
        fractions("0.5", "0.4", "0.1"),
        F("0.1"),
    )
    assert (temperature.name, temperature.law, temperature.tv) == (
        "temperature",
        fractions("13/21", "5/14", "1/42"),
        F(8, 105),
    )
    assert [m.reject for m in cats.mistakes] == [F("0.2"), F("0.2"), F(5, 21)]
    assert not any(m.ok for m in cats.mistakes)


def test_two_thirds_by_hand():
    # target (1/3, 2/3), draft (1/2, 1/2): reject 1/2 x 1/3 = 1/6, all of it redrawn as the second token.
    worked = example("1/3,2/3", "1/2,1/2")
    assert worked.accepted == fractions("1/3", "1/2")
    assert worked.redrawn == fractions(0, "1/6")
    resample, absolute, temperature = worked.mistakes
    assert (resample.law, resample.tv) == (fractions("7/18", "11/18"), F(1, 18))
    assert (absolute.law, absolute.tv) == (fractions("5/12", "7/12"), F(1, 12))
    # A uniform row is the same at every temperature.
    assert (temperature.law, temperature.tv) == (worked.target, 0)


def test_equal_rows_never_reject_yet_a_temperature_mismatch_shows():
    worked = example("0.2,0.8", "0.2,0.8")
    assert worked.reject == worked.z == worked.tv == 0
    assert worked.residual is None
    assert worked.accepted == worked.recovered == worked.target
    assert [m.tv for m in worked.mistakes] == [0, 0, F(12, 85)]
    assert worked.mistakes[2].law == fractions("1/17", "16/17")
    assert worked.ok


def test_disjoint_rows_always_reject_and_redraw_the_target():
    worked = example("0,1/3,2/3", "1,0,0")
    assert worked.reject == worked.z == worked.tv == 1
    assert worked.accepted == fractions(0, 0, 0)
    assert worked.residual == worked.redrawn == worked.recovered == worked.target
    assert worked.accept == (0, None, None)
    assert worked.mistakes[1].law == fractions("1/2", "1/6", "1/3")
    assert [m.tv for m in worked.mistakes] == [0, F(1, 2), 0]


def test_a_token_the_draft_never_proposes_comes_from_the_residual_alone():
    worked = example("1/2,1/4,1/4", "3/4,1/4,0")
    assert worked.ratio == (F(2, 3), F(1), None)
    assert worked.accept[2] is None
    assert (worked.accepted[2], worked.redrawn[2]) == (0, F(1, 4))
    assert worked.ok


def test_a_single_token():
    worked = example("1", "1.0")
    assert worked.names == ("token 0",)
    assert worked.ok
    assert all(m.ok for m in worked.mistakes)


def test_verdict_names_the_numbers(cats):
    assert str(cats) == (
        "EXACT: P(reject) 1/5, Z 1/5, TV(target, draft) 1/5; "
        "TV of mistakes: resample_target 2/25, absolute_difference 1/10, temperature 8/105"
    )


@st.composite
def rows(draw):
    size = draw(st.integers(1, 6))
    weights = st.lists(st.integers(0, 30), min_size=size, max_size=size).filter(any)
    return tuple(tuple(F(w, sum(row)) for w in row) for row in (draw(weights), draw(weights)))


@given(rows())
def test_any_rows_recover_the_target_exactly(pair):
    target, draft = pair
    worked = worked_example(target, draft)
    assert worked.ok
    assert worked.recovered == target
    assert worked.reject == worked.z == worked.tv == total_variation(target, draft)
    # The pointwise identity, with the minimum computed here.
    assert worked.minimum == worked.accepted == tuple(min(p, q) for p, q in zip(target, draft, strict=True))
    assert worked.redrawn == worked.excess


@given(rows())
def test_any_rows_give_mistakes_that_closed_forms_know(pair):
    target, draft = pair
    resample, absolute, temperature = worked_example(target, draft).mistakes
    z = total_variation(target, draft)
    assert resample.law == tuple(min(p, q) + z * p for p, q in zip(target, draft, strict=True))
    # The lost sign leaves the output halfway between the rows.
    assert absolute.law == tuple((p + q) / 2 for p, q in zip(target, draft, strict=True))
    assert absolute.tv == z / 2
    assert all(sum(m.law) == 1 for m in (resample, absolute, temperature))
    squares = sum(q * q for q in draft)
    kept = [q * min(p, q) / squares for p, q in zip(target, draft, strict=True)]
    excess = [max(p - q, F(0)) for p, q in zip(target, draft, strict=True)]
    assert temperature.reject == 1 - sum(kept)
    assert temperature.law == tuple(
        k + (1 - sum(kept)) * e / z if z else k for k, e in zip(kept, excess, strict=True)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.6, .3 ,1e-1", fractions("3/5", "3/10", "1/10")),
        ("1/3,2/3", fractions("1/3", "2/3")),
        ("1.", fractions(1)),
    ],
)
def test_decimals_and_fractions_are_taken_exactly(text, expected):
    assert parse_row(text, "target") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the draft row is empty"),
        ("  ", "the draft row is empty"),
        ("0.5,x", "draft entry 2 is 'x', not a number"),
        ("0.5,0.5,", "draft entry 3 is '', not a number"),
        ("nan", "draft entry 1 is 'nan', not a number"),
        ("inf", "draft entry 1 is 'inf', not a number"),
        ("1/0", "draft entry 1 is '1/0', not a number"),
        ("1e999999999", "draft entry 1 is '1e999999999', not a number"),
        ("0." + "1" * 5000, "draft entry 1 is '0.11111111111111111111111111111111111111…', not a number"),
    ],
)
def test_what_is_no_row_of_numbers_is_refused(text, message):
    with pytest.raises(SpecproofError) as caught:
        parse_row(text, "draft")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert "0.3" in str(caught.value)  # shows how it is done


@pytest.mark.parametrize(
    ("target", "draft", "names", "message"),
    [
        (
            "0.6,0.3",
            "0.5,0.5",
            None,
            "the target row sums to 9/10, not exactly 1: divided by the sum it is 2/3,1/3",
        ),
        (
            "0.5,0.5",
            "0.5,0.6",
            None,
            "the draft row sums to 11/10, not exactly 1: divided by the sum it is 5/11,6/11",
        ),
        ("0,0", "0.5,0.5", None, "the target row sums to 0, not exactly 1: make one entry positive"),
        ("1.1,-0.1", "0.5,0.5", None, "target entry 2 is -1/10: probabilities are 0 or more; drop the minus sign"),
        ("0.5,0.5", "1", None, "the target row has 2 entries and the draft row 1: give one each"),
        ("0.5,0.5", "0.5,0.5", ["a"], "1 names for 2 tokens: give 2"),
        ("0.5,0.5", "0.5,0.5", ["a", "a"], "two tokens are named 'a'"),
        ("0.5,0.5", "0.5,0.5", ["a", ""], "token name '' cannot be shown"),
        ("0.5,0.5", "0.5,0.5", ["a", "b\n"], "token name 'b\\n' cannot be shown"),
    ],
)
def test_what_is_no_pair_of_distributions_is_refused(target, draft, names, message):
    with pytest.raises(SpecproofError) as caught:
        example(target, draft, names)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_an_empty_row_is_refused():
    with pytest.raises(SpecproofError, match="the target row is empty"):
        worked_example([], [])
