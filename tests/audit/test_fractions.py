"""The fraction harness against values worked by hand and against the float64 audit."""

from fractions import Fraction as F

import pytest
import torch

from specproof.audit import exact
from specproof.audit.fractions import drafts, spec_law, target_law, tv
from specproof.backends.table import TableModel
from specproof.rules import RULES
from specproof.rules.spec.block import block
from specproof.rules.spec.rejection import rejection
from specproof.rules.spec.walk import walk
from specproof.tree import Tree

P = [F(1, 2), F(1, 3), F(1, 6)]
Q = P[::-1]


def always(row):
    return lambda context: row


def turning(row):
    """A model whose row depends on the context."""
    return lambda context: row[sum(context) % 3 :] + row[: sum(context) % 3]


@pytest.mark.parametrize(
    ("spec", "length", "accepted"),
    [(rejection, 2, F(10, 9)), (block, 2, F(7, 6)), (rejection, 3, F(38, 27)), (block, 3, F(14, 9))],
)
def test_expected_accepted_nodes_of_the_literature(spec, length, accepted):
    found = spec_law(spec, always(P), always(Q), Tree.chain(length), "iid", length + 1)
    assert found.accepted == accepted
    assert found.law == target_law(always(P), length + 1)


def test_without_replacement_never_repeats_a_sibling():
    law = {tuple(tokens): p for tokens, p in drafts(always(P), Tree((-1, -1)), "without_replacement")}
    assert law[(0, 1)] == F(1, 2) * F(1, 3) / F(1, 2)
    assert all(first != second for first, second in law)
    assert sum(law.values()) == 1


def test_point_children_are_the_likeliest_tokens():
    assert list(drafts(always(Q), Tree((-1, -1)), "point")) == [([2, 1], 1)]


def test_a_biased_specification_has_its_exact_distance():
    def accept_all(number, target, drawn, tree, tokens):
        law = rejection(number, drawn[:1] * 2, drawn[:1] * 2, tree, tokens)
        return type(law)(law.stop, [target[0], target[1]])

    found = spec_law(accept_all, always(P), always(Q), Tree.chain(1), "iid", 1)
    assert tv(found.law, target_law(always(P), 1)) == F(1, 3)


@pytest.mark.parametrize(
    ("name", "tree", "drawn"),
    [
        ("walk", (-1, -1, 0), "iid"),
        ("walk", (-1, -1, 1), "without_replacement"),
        ("walk", (-1, -1, 0), "point"),
        ("block", (-1, 0), "iid"),
        ("rejection", (-1, 0), "point"),
    ],
)
def test_agrees_with_the_float64_audit(name, tree, drawn):
    shape = Tree(tree)
    found = spec_law(RULES[name].spec, turning(P), turning(Q), shape, drawn, 3)
    models = [TableModel(_levels(turning(row), 3)) for row in (P, Q)]
    other = exact.text_law(RULES[name], exact.Instance(*models, shape, drawn, 3))
    law = torch.tensor([float(found.law.get(_text(n), F(0))) for n in range(27)], dtype=torch.float64)
    assert exact.tv(law, other.law) <= 1e-15
    assert abs(float(found.accepted) - other.accepted) <= 1e-15


def test_walk_specification_reads_no_drawn_row():
    assert spec_law(walk, turning(P), turning(Q), Tree((-1, -1)), "iid", 2).law == target_law(turning(P), 2)


def _text(number):
    return (number // 9, number // 3 % 3, number % 3)


def _levels(model, order):
    levels = []
    contexts = [()]
    for _ in range(order + 1):
        levels.append(torch.tensor([[float(x) for x in model(c)] for c in contexts], dtype=torch.float64))
        contexts = [(*c, x) for c in contexts for x in range(3)]
    return tuple(levels)
