"""Which drafts a claim is about, and how rules and shapes are named."""

import pytest

from specproof.audit.proof import Setting, parse_shape, prove_rule
from specproof.errors import SpecproofError
from specproof.rules.spec.walk import walk
from specproof.tree import Tree


def drafters(vocabulary, branching, drawn):
    return list(Setting(walk, vocabulary, Tree.levels(branching), drawn).drafters())


def test_sampled_drafts_come_from_one_drafter():
    (drafts,) = drafters(3, (2,), "iid")
    assert len(drafts) == len(set(drafts)) == 9


def test_point_drafts_are_any_tokens_each_from_its_own_drafter():
    plans = drafters(3, (2,), "point")
    assert sorted(plans) == [[(a, b)] for a in range(3) for b in range(3)]


def test_all_siblings_but_the_last_are_chosen():
    plans = drafters(3, (2,), "top_and_one")
    assert sorted(plans) == [[(a, b) for b in range(3)] for a in range(3)]


def test_choices_depend_on_the_text_before():
    # A chosen child and a drawn one, each with two more: what is chosen below depends on where one is.
    plans = drafters(2, (2, 2), "top_and_one")
    below = {tuple({tokens[1]: tokens[4] for tokens in plan}.items()) for plan in plans}
    assert {frozenset(choice) for choice in below} == {
        frozenset({(0, a), (1, b)}) for a in range(2) for b in range(2)
    }


def test_an_only_child_is_drawn():
    (drafts,) = drafters(2, (1, 1), "top_and_one")
    assert len(drafts) == 4


@pytest.mark.parametrize(
    ("vocabulary", "branching", "drawn"), [(2, (3,), "without_replacement"), (1, (1,), "iid")]
)
def test_a_vocabulary_that_is_too_small_is_refused(vocabulary, branching, drawn):
    with pytest.raises(SpecproofError, match="too small"):
        Setting(walk, vocabulary, Tree.levels(branching), drawn)


@pytest.mark.parametrize(
    ("text", "parents"),
    [("chain:3", (-1, 0, 1)), ("2", (-1, -1)), ("2x1", (-1, -1, 0, 1)), ("1x2", (-1, 0, 0))],
)
def test_shapes(text, parents):
    assert parse_shape(text).parents == parents


@pytest.mark.parametrize("text", ["", "chain", "chain:0", "0", "2x", "2x0", "-1", "chain:-1", "two"])
def test_an_unknown_shape_is_an_error_that_names_the_allowed_ones(text):
    with pytest.raises(SpecproofError, match="chain:LENGTH"):
        parse_shape(text)


def test_a_result_says_what_was_proved_and_how_to_run_it_again():
    result = prove_rule("rejection")
    assert result.ok
    assert (result.drawn, result.shape, result.vocabulary) == ("iid", "chain:1", 2)
    assert str(result).startswith("PROVED: rejection, 2 tokens, shape chain:1, iid: lossless for all rows")
    assert result.replay == "specproof prove rejection --vocab 2 --shape chain:1 --drawn iid"
    assert result.as_dict()["status"] == "PROVED"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nonsense",), "unknown rule 'nonsense'"),
        (("rejection", 2, "2"), "does not take iid trees"),
        (("block", 2, "chain:1", "without_replacement"), "does not take without_replacement"),
        (("walk", 10, "5"), "100000 drafts"),
        (("no_such_module:rule",), "no module 'no_such_module'"),
        (("specproof.rules.spec.walk:run",), "no function 'run'"),
    ],
)
def test_wrong_names_are_errors(arguments, message):
    with pytest.raises(SpecproofError, match=message):
        prove_rule(*arguments)
