"""The exact audit: known values, exact fractions, and planted faults that it must see."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from specproof.audit.exact import Instance, target_law, text_law, tv
from specproof.audit.fractions import spec_law
from specproof.audit.golden import GOLDEN
from specproof.audit.rules import audit_rule
from specproof.backends.table import TableModel
from specproof.rules import RULES
from specproof.rules.rows import pick
from specproof.tree import Tree

HALF = TableModel.constant([0.5, 0.5])
TARGET, DRAFT = TableModel.constant([0.6, 0.3, 0.1]), TableModel.constant([0.2, 0.3, 0.5])


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda g: f"{g.rule}, {g.case}")
def test_known_accepted_lengths_in_exact_fractions(golden):
    target, draft = ((lambda context, row=list(row): row) for row in golden.rows)
    spec = RULES[golden.rule].specification(golden.drawn)
    assert spec_law(spec, target, draft, golden.tree, golden.drawn, 1).accepted == golden.accepted


@pytest.mark.parametrize("name", ["rejection", "block", "walk", "siblings", "traversal"])
def test_the_audit_passes_the_rule_and_meets_its_known_values(name):
    result = audit_rule(RULES[name], instances=100, seed=4)
    assert result.ok, str(result)
    assert result.tv < 1e-13
    assert str(result).startswith("EXACT")
    assert len(result.golden) == sum(golden.rule == name for golden in GOLDEN)


def test_the_law_of_the_text_is_the_product_of_rows():
    model = TableModel.random(3, 2, torch.Generator().manual_seed(0))
    law = target_law(Instance(model, model, Tree.chain(1), "iid", 3)).reshape(3, 3, 3)
    for text in product(range(3), repeat=3):
        expected = 1.0
        for i, token in enumerate(text):
            expected *= float(model.row(text[:i])[token])
        assert law[text] == pytest.approx(expected, abs=1e-15)


def emitted(rule, target=TARGET, draft=DRAFT, tree=None, drawn="iid"):
    """Law of one emitted token and its distance from the target."""
    instance = Instance(target, draft, tree or Tree.chain(1), drawn, 1)
    law = text_law(rule, instance).law
    return law.tolist(), tv(law, target_law(instance))


def test_m5_resampling_from_the_target():
    """Right (.6, .3, .1); the fault gives (.44, .42, .14)."""
    law, distance = emitted(lambda t, d: replace(RULES["rejection"](t, d), next=lambda at: pick(t, at)))
    assert law == pytest.approx([0.44, 0.42, 0.14])
    assert distance == pytest.approx(0.16)


def test_m3_softmax_instead_of_normalising_the_residual():
    def rule(target, draft):
        right = RULES["rejection"](target, draft)
        wrong = (target[:, 0] - draft.rows[:, 0]).clamp(min=0).softmax(-1)
        return replace(right, next=lambda at: torch.where(at[:, None] == 0, wrong, right.next(at)))

    law, distance = emitted(rule)
    assert law == pytest.approx([0.3709, 0.4146, 0.2146], abs=1e-4)
    assert distance == pytest.approx(0.2291, abs=1e-4)


def test_m4_accepting_everything():
    def rule(target, draft):
        right = RULES["rejection"](target, draft)
        return replace(right, stop=torch.tensor([0.0, 1.0]).double().expand_as(right.stop))

    law, distance = emitted(rule)
    assert law == pytest.approx([0.2, 0.3, 0.5])
    assert distance == pytest.approx(0.4)


def test_m1_a_soft_row_for_an_argmax_token():
    target, soft = TableModel.constant([0.6, 0.4]), TableModel.constant([0.8, 0.2])

    def rule(t, draft):
        claimed = torch.tensor([0.8, 0.2]).double().expand(*draft.tokens.shape[:1], 2, 2)
        return RULES["rejection"](t, replace(draft, rows=claimed, drawn="iid"))

    law, distance = emitted(rule, target, soft, drawn="point")
    assert law == pytest.approx([0.75, 0.25])
    assert distance == pytest.approx(0.15)
    assert emitted(RULES["rejection"], target, soft, drawn="point")[1] < 1e-15


def test_m6_residual_that_subtracts_only_the_drafted_token():
    target, draft = TableModel.constant([0.3, 0.2, 0.5]), TableModel.constant([0.5, 0.3, 0.2])

    def rule(t, d):
        right = RULES["rejection"](t, d)
        only = torch.zeros_like(t[:, 0]).scatter(-1, d.tokens, d.rows[:, 0].gather(-1, d.tokens))
        wrong = (t[:, 0] - only).clamp(min=0)
        wrong = wrong / wrong.sum(-1, keepdim=True)
        return replace(right, next=lambda at: torch.where(at[:, None] == 0, wrong, right.next(at)))

    law, distance = emitted(rule, target, draft)
    assert law == pytest.approx([0.3375, 0.2571, 0.4054], abs=1e-4)
    assert distance == pytest.approx(0.0946, abs=1e-4)


def test_m2_rows_from_before_the_filter():
    """The token is drawn after top-2, the row is the one before."""
    target = TableModel.constant([0.5, 0.5, 0.0, 0.0])
    drawn = TableModel.constant([4 / 7, 3 / 7, 0.0, 0.0])

    def rule(t, d):
        return RULES["rejection"](
            t, replace(d, rows=torch.tensor([0.4, 0.3, 0.2, 0.1]).double().expand_as(d.rows))
        )

    law, distance = emitted(rule, target, drawn)
    assert law == pytest.approx([0.5714, 0.4286, 0, 0], abs=1e-4)
    assert distance == pytest.approx(0.0714, abs=1e-4)


def test_a_row_that_is_off_by_one_is_seen_only_with_rows_that_depend_on_the_context():
    generator = torch.Generator().manual_seed(0)

    def shifted(target, draft):
        return RULES["rejection"](torch.cat([target[:, 1:], target[:, -1:]], 1), draft)

    model, draft = TableModel.random(3, 3, generator), TableModel.random(3, 3, generator)
    instance = Instance(model, draft, Tree.chain(2), "iid", 4)
    assert tv(text_law(shifted, instance).law, target_law(instance)) > 0.01
    constant = Instance(TARGET, DRAFT, Tree.chain(2), "iid", 4)
    assert tv(text_law(shifted, constant).law, target_law(constant)) < 1e-15


def test_last_ratio_uncapped_in_block_verification():
    """Published as an improvement; on the binary toy the law is off by 1/9."""
    target, draft = TableModel.constant([1 / 3, 2 / 3]), TableModel.constant([2 / 3, 1 / 3])

    def rule(t, d):
        right = RULES["block"](t, d)
        ratios = (
            t[:, :-1].gather(-1, d.tokens[..., None])[..., 0]
            / d.rows[:, :-1].gather(-1, d.tokens[..., None])[..., 0]
        )
        last = ratios.prod(1).clamp(max=1)
        stop = right.stop.clone()
        earlier = stop[:, :-1].sum(1)
        stop[:, :-1] *= torch.where(earlier > 0, (1 - last) / earlier, 0)[:, None]
        stop[:, -1] = last
        stop[earlier == 0, 0] = 1 - last[earlier == 0]
        return replace(right, stop=stop)

    instance = Instance(target, draft, Tree.chain(2), "iid", 3)
    assert tv(text_law(rule, instance).law, target_law(instance)) > 0.01


def test_longer_rounds_need_the_cut_at_the_end_of_the_text():
    """A round may commit more than is left; the law of the text must not notice."""
    generator = torch.Generator().manual_seed(2)
    model, draft = TableModel.random(2, 5, generator), TableModel.random(2, 5, generator)
    for length in (1, 2, 3, 4, 5):
        instance = Instance(model, draft, Tree.chain(3), "iid", length)
        assert tv(text_law(RULES["block"], instance).law, target_law(instance)) < 1e-14
