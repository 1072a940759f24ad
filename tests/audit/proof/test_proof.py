"""Sound rules are proved, unsound ones refuted; the proof alone must do both, without the search before it."""

from fractions import Fraction as F

import pytest
import unsound_specs as unsound

from specproof.audit.proof import Setting, prove
from specproof.errors import SpecproofError
from specproof.rules.spec.block import block
from specproof.rules.spec.numbers import SpecLaw
from specproof.rules.spec.rejection import rejection
from specproof.rules.spec.walk import walk
from specproof.tree import Tree

CHAIN, PAIR = Tree.chain(1), Tree.levels((2,))

SOUND = [
    (rejection, 2, CHAIN, "iid"),
    (rejection, 3, CHAIN, "point"),
    (rejection, 4, CHAIN, "iid"),
    (rejection, 2, Tree.chain(2), "iid"),
    (rejection, 2, Tree.chain(2), "point"),
    (block, 3, CHAIN, "iid"),
    (block, 2, Tree.chain(2), "iid"),
    (block, 2, Tree.chain(2), "point"),
    (walk, 3, PAIR, "iid"),
    (walk, 3, PAIR, "without_replacement"),
    (walk, 3, PAIR, "top_and_one"),
    (walk, 2, PAIR, "point"),
    (walk, 2, Tree.levels((2, 1)), "iid"),
    (unsound.any_fallback, 2, CHAIN, "iid"),
]
HARDER = [
    (rejection, 8, CHAIN, "iid"),
    (rejection, 2, Tree.chain(3), "iid"),
    (rejection, 3, Tree.chain(2), "iid"),
    (block, 3, Tree.chain(2), "iid"),
    (block, 2, Tree.chain(3), "iid"),
    (walk, 2, Tree.levels((2, 2)), "iid"),
]
UNSOUND = [
    (unsound.resampling, 2, CHAIN, "iid"),
    (unsound.resampling, 3, Tree.chain(2), "iid"),
    (unsound.absolute_difference, 2, CHAIN, "iid"),
    (unsound.argmax_with_soft_row, 2, CHAIN, "point"),
    (unsound.unrenormalised_siblings, 3, PAIR, "without_replacement"),
    (unsound.dropped_by_its_value, 2, CHAIN, "iid"),
    (unsound.uncapped_at_the_end, 2, Tree.chain(2), "iid"),
    (unsound.longest_of_two, 2, PAIR, "iid"),
    (unsound.without_normalising, 2, CHAIN, "iid"),
    (unsound.negative_residual, 2, PAIR, "iid"),
    (unsound.divides_by_any_mass, 2, CHAIN, "iid"),
    (unsound.wrong_in_a_corner, 2, CHAIN, "iid"),
    (unsound.wrong_where_rows_are_equal, 2, CHAIN, "iid"),
    (unsound.wrong_without_mass, 2, CHAIN, "iid"),
]


def name(value):
    return {Tree: lambda: "-".join(map(str, value.parents))}.get(
        type(value), lambda: getattr(value, "__name__", str(value))
    )()


@pytest.mark.parametrize(("spec", "vocabulary", "tree", "drawn"), SOUND, ids=name)
def test_a_sound_rule_is_proved(spec, vocabulary, tree, drawn):
    outcome = prove(Setting(spec, vocabulary, tree, drawn))
    assert outcome.status == "PROVED", outcome
    assert outcome.cases > 0


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "vocabulary", "tree", "drawn"), HARDER, ids=name)
def test_a_sound_rule_is_proved_on_larger_shapes(spec, vocabulary, tree, drawn):
    assert prove(Setting(spec, vocabulary, tree, drawn)).status == "PROVED"


@pytest.mark.parametrize("first_search", [True, False], ids=["search", "proof"])
@pytest.mark.parametrize(("spec", "vocabulary", "tree", "drawn"), UNSOUND, ids=name)
def test_an_unsound_rule_gets_a_counterexample(spec, vocabulary, tree, drawn, first_search):
    outcome = prove(Setting(spec, vocabulary, tree, drawn), first_search=first_search)
    assert outcome.status == "COUNTEREXAMPLE", outcome
    found = outcome.counterexample
    assert found.problem
    for rows in (found.target, found.draft):
        assert all(sum(row) == 1 and min(row) >= 0 for row in rows.values())
    if found.laws:
        assert found.tv > 0
        # The law of the text in the table is a law, unless a draft's was none.
        assert sum(law.wanted for law in found.laws) == 1


def test_the_proof_finds_what_the_search_cannot():
    # Token 0 has more than 96 % of both rows.
    found = prove(Setting(unsound.wrong_in_a_corner, 2, CHAIN, "iid")).counterexample
    assert min(found.target[()][0], found.draft[()][0]) > F(96, 100)


def test_what_is_wrong_is_named():
    def problem(spec, tree=CHAIN):
        return prove(Setting(spec, 2, tree, "iid")).counterexample.problem

    assert "divides by zero" in problem(unsound.divides_by_any_mass)
    assert "no law" in problem(unsound.negative_residual, PAIR)
    assert "does not come out" in problem(unsound.resampling)


def test_a_law_that_is_none_for_one_draft_is_found_though_the_text_is_right():
    # Two wrongs that cancel: stopping has probability 2 for tokens in one order and 0 in the other.
    def spec(number, target, drawn, tree, tokens):
        return SpecLaw([1 + (tokens[0] < tokens[1]) - (tokens[0] > tokens[1]), 0, 0], list(target))

    for first_search in (True, False):
        outcome = prove(Setting(spec, 2, PAIR, "iid"), first_search=first_search)
        assert outcome.counterexample.problem.startswith("stopping has no law")


def test_time_that_runs_out_is_said():
    outcome = prove(Setting(rejection, 3, Tree.chain(2), "iid"), seconds=1e-9)
    assert (outcome.status, outcome.reason) == ("UNKNOWN", "time ran out")


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (lambda p: p > F(1, 2), "compares numbers"),
        (lambda p: p == 1, "compares numbers"),
        (lambda p: p * 0.5, "float"),
    ],
)
def test_what_no_proof_can_follow_is_an_error(condition, message):
    def spec(number, target, drawn, tree, tokens):
        condition(target[0][0])
        return rejection(number, target, drawn, tree, tokens)

    with pytest.raises(SpecproofError, match=message):
        prove(Setting(spec, 2, CHAIN, "iid"))


def test_a_law_of_another_size_is_an_error():
    def spec(number, target, drawn, tree, tokens):
        return SpecLaw([1], [target[0]])

    with pytest.raises(SpecproofError, match="give 2 of each"):
        prove(Setting(spec, 2, CHAIN, "iid"))


def test_a_free_number_is_proved_for_every_value_that_keeps_the_promise():
    # Two drafts judged with slack: right in law for any slack >= 1, but a law only where the slack is enough.
    def spec(number, target, drawn, tree, tokens, slack=lambda row: F(2)):
        loose = slack(target[0])
        accepts = [number.minimum(1, target[0][token] / (loose * drawn[0][token])) for token in tokens]
        shared = [number.minimum(p / loose, q) for p, q in zip(target[0], drawn[0], strict=True)]
        rest = [p - both * (2 - sum(shared)) for p, both in zip(target[0], shared, strict=True)]
        refused = 1 - accepts[0]
        total = sum(rest)
        extra = [
            number.if_positive(total, lambda m=m: m / total, lambda p=p: p)
            for m, p in zip(rest, target[0], strict=True)
        ]
        return SpecLaw([refused * (1 - accepts[1]), accepts[0], refused * accepts[1]], [extra, *target[1:]])

    def at_least(least):
        def freedom(unknowns):
            def slack(row):
                value = unknowns.unknown(row, "slack")
                unknowns.promise(value, positive=True)
                unknowns.promise(value - least)
                return value

            return {"slack": slack}

        return Setting(spec, 2, PAIR, "iid", freedom)

    assert prove(at_least(2)).status == "PROVED"
    # Slack 1 is not always enough; the specification's own choice is, so there are no rows to show.
    assert prove(at_least(1)).status == "UNKNOWN"
