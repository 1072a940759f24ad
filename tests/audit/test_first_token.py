"""The first token in parts: the parts sum to the audited law, and draws follow it."""

from fractions import Fraction as F

import numpy as np
import pytest

from specproof.audit.exact import text_law, tv
from specproof.audit.first_token import MISTAKES, first_token, sample_first, sound
from specproof.audit.goodness import fit
from specproof.audit.worked import worked_example
from specproof.rules import RULES
from specproof.tree import Tree

TARGET, DRAFT = (F(3, 5), F(3, 10), F(1, 10)), (F(1, 5), F(1, 2), F(3, 10))
SHAPES = (Tree.chain(1), Tree.chain(3), Tree.levels((2,)), Tree.levels((3,)), Tree.levels((2, 1)))
SETTINGS = [
    (rule, drawn, tree)
    for rule in RULES.values()
    if rule.usable
    for drawn in rule.draws
    for tree in SHAPES
    if rule.fits(drawn, tree)
]


@pytest.mark.parametrize(("rule", "drawn", "tree"), SETTINGS, ids=lambda x: getattr(x, "name", str(x)))
def test_the_parts_of_every_rule_sum_to_its_law(rule, drawn, tree):
    setting = sound(rule, TARGET, DRAFT, tree, drawn)
    found = first_token(setting)
    audited = text_law(rule, setting.instance)
    assert tv(audited.law, audited.law.new_tensor(found.law)) < 1e-15
    assert found.accepted == pytest.approx(audited.accepted, abs=1e-14)
    assert len(found.kept) == len(tree.children(-1))
    if rule.lossless:
        assert found.tv < 1e-12
        assert found.exact_tv in (0, None)


def test_the_fraction_is_the_distance():
    for rule, drawn, tree in SETTINGS:
        found = first_token(sound(rule, TARGET, DRAFT, tree, drawn))
        if found.exact_tv is not None:
            assert found.tv == pytest.approx(float(found.exact_tv), abs=1e-14)


def test_one_draft_and_rejection_is_the_worked_example():
    example = worked_example(TARGET, DRAFT)
    found = first_token(sound(RULES["rejection"], TARGET, DRAFT, Tree.chain(1), "iid"))
    assert found.kept[0] == pytest.approx([float(mass) for mass in example.accepted], abs=1e-15)
    assert found.redrawn == pytest.approx([float(mass) for mass in example.redrawn], abs=1e-15)


def test_mistakes_cost_what_the_worked_example_says():
    for mistake in worked_example(TARGET, DRAFT).mistakes:
        found = first_token(MISTAKES[mistake.name](TARGET, DRAFT))
        assert found.exact_tv == mistake.tv > 0
        assert found.law == pytest.approx([float(mass) for mass in mistake.law], abs=1e-15)


def test_a_soft_row_for_an_argmax_draft_and_lenience():
    # The draft always says token 1, kept with 3/5; the rest is redrawn from the residual, token 0 alone.
    soft = first_token(MISTAKES["soft_row"](TARGET, DRAFT))
    assert soft.law == pytest.approx((0.4, 0.6, 0))
    assert soft.exact_tv == F(3, 10)
    assert first_token(MISTAKES["lenience"](TARGET, DRAFT)).exact_tv > 0


def test_draws_follow_the_law_and_not_another():
    """False alarms <= 1e-4 in each of six tests; the fault to catch is a draw from the target instead."""
    for setting in (
        sound(RULES["siblings"], TARGET, DRAFT, Tree.levels((2,)), "iid"),
        *(make(TARGET, DRAFT) for make in MISTAKES.values()),
    ):
        counts = np.array(sample_first(setting, 4000, 1))
        law = np.array(first_token(setting).law)
        law[law < 1e-15] = 0
        assert fit(counts, law / law.sum(), 1e-5).pvalue > 1e-4
        if setting.rule is not RULES["siblings"]:
            assert fit(counts, np.array([float(mass) for mass in TARGET]), 1e-5).pvalue < 1e-4


def test_the_same_seed_draws_the_same_and_another_does_not():
    setting = sound(RULES["walk"], TARGET, DRAFT, Tree.levels((2,)), "without_replacement")
    assert sample_first(setting, 300, 5) == sample_first(setting, 300, 5)
    assert len({sample_first(setting, 300, seed) for seed in range(5)}) > 1
    assert sum(sample_first(setting, 300, 5)) == 300
