"""Verifiers of trees that are not lossless, with the exact distance that an audit must find."""

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction as F

import pytest
from tree_cases import P, Q, always

from specproof.audit.exact import Instance, target_law, text_law, tv
from specproof.audit.fractions import spec_law
from specproof.audit.fractions import target_law as exact_target_law
from specproof.audit.fractions import tv as exact_tv
from specproof.audit.mutants.rule import (
    distinct,
    distinct_likeliest_first,
    half_renormalised,
    likeliest_first,
    own_samples,
    reordered,
    soft,
)
from specproof.backends.table import TableModel
from specproof.rules import RULES
from specproof.rules.spec.numbers import EXACT
from specproof.rules.spec.siblings import siblings, siblings_without_replacement
from specproof.rules.spec.traversal import traversal, traversal_without_replacement
from specproof.tree import Tree

TWO, THREE = Tree((-1, -1)), Tree((-1, -1, -1))
LEANING = ([F(8, 20), F(7, 20), F(5, 20)], [F(1, 5), F(1, 5), F(3, 5)])
REVERSED = (P, Q)
FOUR = ([F(1, 10), F(4, 10), F(3, 10), F(2, 10)], [F(5, 10), F(3, 10), F(1, 10), F(1, 10)])


def one_token_law(spec, rows, tree, drawn):
    """Law of the first token, and its distance from the target."""
    target, draft = map(always, rows)
    law = spec_law(spec, target, draft, tree, drawn, 1).law
    return [law.get((token,), F(0)) for token in range(len(rows[0]))], exact_tv(law, exact_target_law(target, 1))


@pytest.mark.parametrize("spec", [siblings, traversal])
def test_residual_for_replacement_on_draws_without(spec):
    law, distance = one_token_law(spec, LEANING, TWO, "without_replacement")
    assert law == [F(3, 8), F(3, 8), F(1, 4)]
    assert distance == F(1, 40)
    # One instance is not enough: the reversed rows hide it.
    assert one_token_law(spec, REVERSED, TWO, "without_replacement")[1] == 0


@pytest.mark.parametrize("spec", [siblings_without_replacement, traversal_without_replacement])
def test_residual_without_replacement_on_independent_draws(spec):
    assert one_token_law(spec, LEANING, TWO, "iid") == ([F(49, 100), F(26, 100), F(25, 100)], F(9, 100))
    assert one_token_law(spec, REVERSED, TWO, "iid")[1] == 0


def test_first_appearance_is_the_way_to_drop_repeated_children():
    assert one_token_law(reordered(distinct), LEANING, TWO, "iid")[1] == 0
    assert one_token_law(reordered(distinct), REVERSED, THREE, "iid")[1] == 0
    assert one_token_law(reordered(distinct_likeliest_first), REVERSED, THREE, "iid")[1] == F(23, 108)


def test_siblings_sorted_after_drawing():
    law, distance = one_token_law(reordered(likeliest_first), REVERSED, TWO, "without_replacement")
    assert law == [F(34, 60), F(9, 60), F(17, 60)]
    assert distance == F(11, 60)


def test_likeliest_tokens_scored_as_if_drawn():
    assert one_token_law(soft(Q), REVERSED, TWO, "point") == ([F(2, 3), 0, F(1, 3)], F(1, 3))
    even = [F(1, 2)] * 2
    assert one_token_law(soft(even), (even, even), Tree((-1,)), "point") == ([1, 0], F(1, 2))


@pytest.mark.parametrize("spec", [half_renormalised, siblings])
def test_second_sibling_scored_with_a_row_that_is_not_normalised(spec):
    law, distance = one_token_law(spec, FOUR, TWO, "without_replacement")
    assert law == [F(1, 10), F(1, 2), F(23, 110), F(21, 110)]
    assert distance == F(1, 10)
    assert one_token_law(spec, FOUR, THREE, "without_replacement")[1] == F(1, 10)
    assert one_token_law(siblings_without_replacement, FOUR, THREE, "without_replacement")[1] == 0


@pytest.mark.parametrize("depth", [1, 2])
def test_that_fault_shows_below_the_first_level_as_well(depth):
    tree = Tree.levels((1,) * (depth - 1) + (2,))
    target, draft = map(always, FOUR)
    found = spec_law(siblings, target, draft, tree, "without_replacement", depth).law
    assert exact_tv(found, exact_target_law(target, depth)) > F(1, 100)


def test_a_target_sample_for_every_child_favours_shared_tokens():
    half = [F(1, 2)] * 2
    outcome = own_samples(EXACT, [half] * 5, [], Tree((-1,) * 4), [0, 0, 0, 1])
    law = defaultdict(F)
    for token, stop in zip([0, 0, 0, 1], outcome.stop[1:], strict=True):
        law[token] += stop
    for token, mass in enumerate(outcome.next[0]):
        law[token] += outcome.stop[0] * mass
    assert law == {0: F(7, 8), 1: F(1, 8)}
    # One sample a node, shared by the rows that pass through it, is the target walk.
    walked = RULES["walk"].spec(EXACT, [half] * 5, [], Tree((-1,) * 4), [0, 0, 0, 1])
    assert walked.stop == [0, F(1, 2), 0, 0, F(1, 2)]


@pytest.mark.parametrize("name", ["siblings", "traversal"])
@pytest.mark.parametrize(
    ("really", "told", "distance"),
    [("without_replacement", "iid", 1 / 40), ("iid", "without_replacement", 9 / 100)],
)
def test_the_rules_themselves_when_told_a_wrong_way_of_drawing(name, really, told, distance):
    models = [TableModel.constant([float(x) for x in row]) for row in LEANING]
    instance = Instance(*models, TWO, really, 1)

    def mistold(target, draft):
        return RULES[name](target, replace(draft, drawn=told))

    assert abs(tv(text_law(mistold, instance).law, target_law(instance)) - distance) <= 1e-14
