"""The published recursion is unsound: exact counterexamples."""

from fractions import Fraction as F

import pytest
import torch
from exact_rule import CHAINS, P, Q, disagreement, product_law, round_law, text_distance

from specproof.audit.exact import Instance, target_law, text_law, tv
from specproof.backends.table import TableModel
from specproof.rules import RULES
from specproof.rules.block import block
from specproof.rules.hsd_published import hsd_published
from specproof.rules.spec.block import block as block_spec
from specproof.rules.spec.hsd_published import hsd_published as spec
from specproof.tree import Tree

TOY = [F(1, 3), F(2, 3)], [F(2, 3), F(1, 3)]


def toy(tree, length):
    rows = ([float(x) for x in row] for row in TOY)
    return Instance(*(TableModel.constant(row) for row in rows), tree, "iid", length)


def test_counterexample_in_fractions():
    assert text_distance(round_law(spec, *TOY, 2), product_law(TOY[0], 3)) == F(1, 9)
    assert text_distance(round_law(spec, *TOY, 2, complete=2), product_law(TOY[0], 2)) == F(1, 9)
    # The same sum finds block verification lossless.
    assert text_distance(round_law(block_spec, *TOY, 2), product_law(TOY[0], 3)) == 0


def test_counterexample_in_float64():
    instance = toy(Tree.chain(2), 2)
    assert tv(text_law(hsd_published, instance).law, target_law(instance)) == pytest.approx(1 / 9, abs=1e-15)
    assert tv(text_law(block, instance).law, target_law(instance)) < 1e-15


@pytest.mark.parametrize("drawn", ["iid", "point"])
def test_torch_rule_is_its_specification(drawn):
    assert disagreement(hsd_published, spec, CHAINS, drawn) < 1e-12
    assert disagreement(hsd_published, spec, CHAINS, drawn, dtype=torch.float32) < 1e-4


def test_one_token_is_exact_two_are_not():
    assert round_law(spec, P, Q, 1) == round_law(block_spec, P, Q, 1)
    assert text_distance(round_law(spec, P, Q, 2), product_law(P, 3)) > 0


def test_random_models_are_off_too():
    generator = torch.Generator().manual_seed(5)
    off = 0
    for _ in range(10):
        target, draft = (TableModel.random(2, 2, generator) for _ in range(2))
        instance = Instance(target, draft, Tree.chain(2), "iid", 3)
        off += tv(text_law(hsd_published, instance).law, target_law(instance)) > 1e-9
    assert off >= 5


def test_no_engine_may_use_it():
    assert not RULES["hsd_published"].usable
    assert not RULES["hsd_published"].lossless
