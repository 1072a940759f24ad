"""Tokens per round on common drafts: known values, the optimum, and what the literature says of its rules."""

from fractions import Fraction as F
from itertools import pairwise

import pytest
import torch

from specproof.audit.compare import GROUPS, compare, compare_on, one_level_optimum, panel, takes
from specproof.audit.exact import Instance
from specproof.backends.table import TableModel
from specproof.rules import RULES, find_rule
from specproof.tree import Tree

P, Q = (F(1, 2), F(1, 3), F(1, 6)), (F(1, 6), F(1, 3), F(1, 2))
PAIR = (F(2, 15), F(1, 15), F(4, 5)), (F(6, 25), F(9, 25), F(2, 5))


def constant(target, draft, tree, drawn):
    models = [TableModel.constant([float(mass) for mass in row]) for row in (target, draft)]
    return Instance(*models, tree, drawn, max(tree.depths) + 1)


@pytest.fixture(scope="module")
def comparisons():
    return {comparison.group: comparison for comparison in compare(list(RULES.values()))}


def tokens(comparison):
    return {standing.rule: standing.tokens for standing in comparison.standings}


def test_golden_pair_on_a_chain_of_two():
    instance = constant(P, Q, Tree.chain(2), "iid")
    comparison = compare_on([RULES["rejection"], RULES["block"], find_rule("spec_rl")], [instance], "golden")
    by_rule = {standing.rule: standing for standing in comparison.standings}
    assert comparison.optimum
    assert comparison.best == pytest.approx(13 / 6, abs=1e-12)
    assert by_rule["rejection"].tokens == pytest.approx(10 / 9 + 1, abs=1e-12)
    assert by_rule["block"].tokens == pytest.approx(7 / 6 + 1, abs=1e-12)
    assert by_rule["rejection"].gap == pytest.approx(1 - (19 / 9) / (13 / 6), abs=1e-12)
    assert by_rule["block"].gap == pytest.approx(0, abs=1e-12)
    assert by_rule["spec_rl"].claim == "LOSSY"


@pytest.mark.parametrize(
    ("rows", "count", "drawn", "value"),
    [
        ((P, Q), 1, "iid", F(2, 3)),
        ((P, Q), 2, "iid", F(29, 36)),
        ((P, Q), 3, "iid", F(199, 216)),
        ((P, Q), 2, "without_replacement", F(11, 12)),
        ((P, Q), 3, "without_replacement", F(1)),
        (PAIR, 2, "without_replacement", F(723, 760)),
        ((P, Q), 2, "point", F(1, 2)),
    ],
)
def test_golden_optima_of_one_level(rows, count, drawn, value):
    found = one_level_optimum(constant(*rows, Tree((-1,) * count), drawn))
    assert found.tolist() == pytest.approx([1 + float(value)], abs=1e-12)


def test_optimum_after_every_context_is_what_transport_attains():
    generator = torch.Generator().manual_seed(3)
    models = TableModel.random(3, 3, generator, 0.2), TableModel.random(3, 3, generator)
    instance = Instance(*models, Tree((-1, -1)), "iid", 4)
    assert one_level_optimum(instance, 2).shape == (9,)
    comparison = compare_on([RULES["transport"]], [instance], "", 2)
    assert comparison.best == pytest.approx(float(one_level_optimum(instance, 2).mean()), abs=1e-12)
    assert comparison.standings[0].gap == pytest.approx(0, abs=1e-12)


def test_every_rule_stands_somewhere_and_no_lossless_one_beats_the_best(comparisons):
    assert {standing.rule for c in comparisons.values() for standing in c.standings} == set(RULES)
    for comparison in comparisons.values():
        for standing in comparison.standings:
            assert standing.gap == pytest.approx(1 - standing.tokens / comparison.best, abs=1e-15)
            if standing.claim == "EXACT":
                assert standing.gap > -1e-12, (comparison.group, standing)


def test_best_is_first(comparisons):
    for comparison in comparisons.values():
        found = [standing.tokens for standing in comparison.standings]
        assert all(a >= b - 1e-12 for a, b in pairwise(found))


def test_claims_of_dominance(comparisons):
    chains, level = tokens(comparisons["chains, iid"]), tokens(comparisons["one level of children, iid"])
    assert chains["rejection"] < chains["block"] == pytest.approx(chains["traversal"], abs=1e-12)
    assert chains["spec_rl_exact"] == pytest.approx(chains["rejection"], abs=1e-12)
    assert level["walk"] < level["siblings"] < level["kseq"] < level["transport"]
    trees = tokens(comparisons["trees, without replacement"])
    assert trees["walk"] < trees["siblings"] < trees["traversal"]
    heads = tokens(comparisons["one level of children, top and one"])
    assert (
        heads["walk"]
        < heads["hu"]
        == pytest.approx(comparisons["one level of children, top and one"].best, abs=1e-12)
    )


def test_where_no_optimum_is_known_the_best_rule_is_named(comparisons):
    comparison = comparisons["trees, without replacement"]
    assert not comparison.optimum
    assert comparison.source == "best lossless rule here: traversal; no optimum is known in closed form"


def test_one_rule_is_held_against_rules_that_were_not_asked_for(comparisons):
    (comparison,) = compare([RULES["hu"]], groups=GROUPS[6:7])
    assert comparison.best == comparisons[comparison.group].best
    assert [standing.rule for standing in comparison.standings] == ["hu"]


def test_panels_are_the_same_for_a_seed():
    first, again, other = (panel(GROUPS[0], seed)[0].target.levels[2] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_transport_is_left_out_where_it_cannot_plan():
    assert takes(RULES["transport"], "without_replacement", Tree((-1, -1)), 20)
    assert not takes(RULES["transport"], "without_replacement", Tree((-1, -1)), 40)
    assert takes(RULES["transport"], "iid", Tree((-1, -1)), 40)
    assert not takes(RULES["block"], "iid", Tree((-1, -1)), 3)
