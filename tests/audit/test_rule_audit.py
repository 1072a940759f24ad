"""The audit of a rule: what its instances cover, what it must not pass, and what it says of lossy rules."""

from dataclasses import replace
from itertools import islice

import pytest
import torch

from specproof.audit.report import RuleResult
from specproof.audit.rules import audit_rule, random_instances
from specproof.rules import RULES, find_rule
from specproof.types import Law


def broken(name, law):
    """The rule of that name with another law."""
    rule = replace(RULES[name])
    rule.__dict__["law"] = law  # where the cached property keeps it
    return rule


@pytest.mark.parametrize("name", ["block", "siblings", "hu", "walk", "kseq"])
def test_instances_can_be_drawn_and_take_several_rounds(name):
    for instance in islice(random_instances(RULES[name], 1), 120):
        assert instance.length > max(instance.tree.depths)
        assert max(instance.tree.parents.count(parent) for parent in instance.tree.parents) <= 3


def test_trees_of_the_design_are_all_there():
    seen = {instance.tree.parents for instance in islice(random_instances(RULES["siblings"], 0), 200)}
    named = {(-1, -1), (-1, 0), (-1, -1, 0, 1), (-1, 0, 0), (-1, -1, 0, 0, 1, 1), (-1, 0, 1), (-1, 0, -1, 1)}
    assert named < seen  # and random ones


def test_a_law_of_nan_does_not_pass():
    def nan(target, draft):
        law = RULES["block"](target, draft)
        return Law(law.stop * float("nan"), law.next)

    result = audit_rule(broken("block", nan), instances=8)
    assert not result.ok
    assert str(result).startswith("NOT LOSSLESS: block: TV nan")


def test_lossy_rules_say_so_with_their_distance():
    result = audit_rule(find_rule("lenience:1/4"), instances=12)
    assert result.ok
    assert not result.lossless
    assert result.slack >= -1e-12
    assert result.rule == "lenience:0.25"
    assert str(result).startswith(f"LOSSY: lenience:0.25: TV up to {result.tv:.4f} over 12 instances")
    assert result.replay == "specproof audit rule lenience:0.25 --instances 12 --seed 0"


def test_unsound_is_what_was_published_as_lossless():
    assert audit_rule(RULES["hsd_published"], instances=12).verdict == "UNSOUND"
    assert [name for name, rule in RULES.items() if rule.refuted] == ["hsd_published"]


def test_a_lossy_rule_that_claims_to_be_exact_fails():
    result = audit_rule(replace(RULES["spec_rl"], lossless=True), instances=12)
    assert (result.ok, result.verdict) == (False, "NOT LOSSLESS")


def test_a_lossy_rule_fails_where_it_leaves_its_specification_or_breaks_the_bound():
    result = RuleResult("x", 1, 0.3, 0.0, (), "", "LOSSY", 0.0)
    assert (result.ok, result.verdict) == (True, "LOSSY")
    for wrong in (
        replace(result, disagreement=0.1),
        replace(result, slack=-0.1),
        replace(result, golden=(("case", 1.0, 1.1),)),
    ):
        assert (wrong.ok, wrong.verdict) == (False, "WRONG")
    assert "broken by 1.0e-01" in str(replace(result, slack=-0.1))


def test_a_row_that_nobody_checks_is_not_left_out():
    """A fault in the extra token alone shows against the specification as well."""

    def wrong(target, draft):
        law = RULES["rejection"](target, draft)
        return Law(law.stop, lambda at: torch.roll(law.next(at), 1, -1))

    assert audit_rule(broken("rejection", wrong), instances=2).disagreement > 0.01
