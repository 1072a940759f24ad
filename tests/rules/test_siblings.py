"""Recursive rejection: golden values, the product formula, and what it reduces to."""

from dataclasses import replace
from fractions import Fraction as F

import pytest
import torch
from tree_cases import P, Q, always, random_draft, random_instance

from specproof.audit.exact import Instance, text_law
from specproof.audit.fractions import spec_law, target_law
from specproof.backends.table import TableModel
from specproof.rules import RULES
from specproof.rules.spec.siblings import siblings, siblings_without_replacement
from specproof.rules.spec.walk import walk
from specproof.tree import Tree
from specproof.types import Draft

SPECS = {"iid": siblings, "without_replacement": siblings_without_replacement}
BROOD = {children: Tree.levels((children,)) for children in (1, 2, 3)}


def accepted(drawn, target, draft, tree):
    """Expected accepted nodes, in fractions; the float64 rule agrees."""
    exact = spec_law(SPECS[drawn], always(target), always(draft), tree, drawn, 1).accepted
    models = [TableModel.constant([float(x) for x in row]) for row in (target, draft)]
    found = text_law(RULES["siblings"], Instance(*models, tree, drawn, 1)).accepted
    assert abs(found - float(exact)) <= 1e-14
    return exact


@pytest.mark.parametrize(
    ("levels", "by_walk", "by_siblings"),
    [
        ((2,), F(107, 180), F(7, 9)),
        ((1, 1), F(115, 324), F(10, 9)),
        ((2, 1), F(2461, 3240), F(35, 27)),
        ((1, 2), F(287, 648), F(32, 27)),
        ((2, 2), F(30709, 32400), F(112, 81)),
        ((1, 1, 1), F(2195, 5832), F(38, 27)),
    ],
)
def test_expected_nodes_on_trees_without_replacement(levels, by_walk, by_siblings):
    tree = Tree.levels(levels)
    assert accepted("without_replacement", P, Q, tree) == by_siblings
    assert spec_law(walk, always(P), always(Q), tree, "without_replacement", 1).accepted == by_walk


@pytest.mark.parametrize(
    ("drawn", "children", "expected"),
    [
        ("iid", 2, F(13, 18)),
        ("iid", 3, F(83, 108)),
        ("without_replacement", 2, F(7, 9)),
        ("without_replacement", 3, F(1)),
    ],
)
def test_acceptance_of_one_family(drawn, children, expected):
    assert accepted(drawn, P, Q, BROOD[children]) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (F(1, 3), F(0), F(7, 9)),
        (F(1, 3), F(1, 10), F(38, 45)),
        (F(1, 3), F(1, 5), F(41, 45)),
        (F(1, 3), F(1, 3), F(1)),
        (F(1, 3), F(1, 2), F(8, 9)),
        (F(1, 3), F(3, 5), F(37, 45)),
        (F(1, 6), F(0), F(2, 3)),
        (F(1, 6), F(1, 5), F(4, 5)),
        (F(1, 6), F(5, 12), F(17, 18)),
    ],
)
def test_two_uniform_drafts_of_khisti_et_al_figure_2(first, second, expected):
    target = [first, second, 1 - first - second]
    assert accepted("iid", target, [F(1, 3)] * 3, BROOD[2]) == expected


@pytest.mark.parametrize("children", [1, 2, 3])
def test_acceptance_of_independent_children_is_a_product(children):
    target, draft = [F(1, 10), F(4, 10), F(3, 10), F(2, 10)], [F(5, 10), F(3, 10), F(1, 10), F(1, 10)]
    owed, refused = target, F(1)
    for _ in range(children):
        alpha = sum(map(min, owed, draft))
        refused *= 1 - alpha
        gap = [max(p - q, F(0)) for p, q in zip(owed, draft, strict=True)]
        owed = [x / sum(gap) for x in gap]
    assert accepted("iid", target, draft, BROOD[children]) == 1 - refused


def test_as_many_children_as_tokens_cover_the_target():
    assert accepted("without_replacement", [F(1, 9), F(1, 9), F(7, 9)], Q, BROOD[3]) == 1


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_exact_law_over_several_rounds(spec):
    def turning(row):
        return lambda context: row[sum(context) % 3 :] + row[: sum(context) % 3]

    found = spec_law(SPECS[spec], turning(P), turning(Q), Tree((-1, -1, 1)), spec, 3)
    assert found.law == target_law(turning(P), 3)


def test_is_rejection_on_chains():
    chains = tuple(Tree.chain(length) for length in (4, 2, 1, 0))
    for seed in range(5):
        target, draft = random_draft(chains, "iid", seed)
        law, other = RULES["siblings"](target, draft), RULES["rejection"](target, draft)
        assert torch.allclose(law.stop, other.stop, atol=1e-15)
        for row in range(5):
            at = torch.tensor([min(row, len(tree)) for tree in chains])
            assert torch.allclose(law.next(at), other.next(at), atol=1e-15)


def test_a_repeated_child_has_no_second_chance():
    target, rows = (torch.tensor([[[float(x) for x in row]] * 3], dtype=torch.float64) for row in (P, Q))
    law = RULES["siblings"](target, Draft((BROOD[2],), torch.tensor([[2, 2]]), rows, "iid"))
    assert law.stop[0].tolist() == pytest.approx([2 / 3, 1 / 3, 0])
    assert law.stop[0, 2] == 0


@pytest.mark.parametrize(
    ("drawn", "target", "draft", "by_walk", "by_siblings"),
    [
        ("without_replacement", [F(1, 2)] * 2, [F(1, 2)] * 2, F(5, 4), F(1)),
        ("iid", [F(0), F(1, 4), F(3, 4)], [F(1, 4), F(0), F(3, 4)], F(801, 1024), F(3, 4)),
    ],
)
def test_the_walk_may_go_deeper_where_the_first_child_is_a_leaf(drawn, target, draft, by_walk, by_siblings):
    tree = Tree((-1, -1, 1))
    assert spec_law(walk, always(target), always(draft), tree, drawn, 1).accepted == by_walk
    assert accepted(drawn, target, draft, tree) == by_siblings


@pytest.mark.parametrize("levels", [(2,), (3,), (1, 2), (2, 1), (2, 2), (1, 1, 1)])
@pytest.mark.parametrize("drawn", SPECS)
def test_never_below_the_walk_where_all_leaves_are_equally_deep(drawn, levels):
    for seed in range(3):
        instance = replace(random_instance(Tree.levels(levels), drawn, seed), length=1)
        assert text_law(RULES["walk"], instance).accepted <= text_law(RULES["siblings"], instance).accepted + 1e-13
