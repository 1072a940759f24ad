"""Lenient rejection: golden values, its upper bound over several rounds, and the specification."""

from fractions import Fraction as F
from functools import partial

import pytest
import torch
from exact_rule import CHAINS, P, Q, accepted, disagreement, distance, one_step

from specproof.audit.exact import Instance, target_law, text_law
from specproof.audit.lossy import audit_lossy
from specproof.backends.table import TableModel
from specproof.errors import SpecproofError
from specproof.rules import RULES, find_rule
from specproof.rules.lenience import lenience
from specproof.rules.spec.lenience import lenience as spec
from specproof.rules.spec.rejection import rejection
from specproof.tree import Tree


def test_golden_values_in_fractions():
    assert accepted(spec, P, Q) == F(5, 6)
    assert one_step(spec, P, Q) == [F(2, 7), F(8, 21), F(1, 3)]
    assert distance(one_step(spec, P, Q), P) == F(3, 14)


def test_golden_values_in_float64():
    result = audit_lossy(lenience, [float(p) for p in P], [float(q) for q in Q])
    assert result.tv == pytest.approx(3 / 14, abs=1e-15)
    assert result.rejected == pytest.approx(1 / 6, abs=1e-15)
    assert result.distance == pytest.approx(1 / 3, abs=1e-15)


def test_the_default_is_a_half_for_rule_specification_and_table():
    for rule in (RULES["lenience"], find_rule("lenience:0.5"), partial(lenience, share=0.5)):
        assert (
            audit_lossy(rule, [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]).tv
            == audit_lossy(lenience, [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]).tv
        )
    assert one_step(spec, P, Q) == one_step(partial(spec, share=F(1, 2)), P, Q)


@pytest.mark.parametrize("drawn", ["iid", "point"])
@pytest.mark.parametrize("share", [F(1, 10), F(1, 2), F(1)])
def test_torch_rule_is_its_specification(drawn, share):
    rule = partial(lenience, share=float(share))
    assert disagreement(rule, partial(spec, share=share), CHAINS, drawn) < 1e-13
    assert disagreement(rule, partial(spec, share=share), CHAINS, drawn, dtype=torch.float32) < 1e-5


def test_share_one_is_rejection():
    assert disagreement(partial(lenience, share=1), rejection, CHAINS, "iid") < 1e-13


def test_at_temperature_zero_there_is_nothing_to_be_lenient_about():
    assert audit_lossy(partial(lenience, share=0.1), [0, 1, 0], [0.5, 0.2, 0.3]).tv == 0


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_no_text_comes_out_more_than_its_share_allows(share):
    generator = torch.Generator().manual_seed(1)
    reached = 0.0
    for _ in range(8):
        target, draft = (TableModel.random(3, 2, generator, zeros=0.2) for _ in range(2))
        instance = Instance(target, draft, Tree.chain(2), "iid", 3)
        law, right = text_law(partial(lenience, share=share), instance).law, target_law(instance)
        assert (law <= right / share**3 + 1e-12).all()
        reached = max(reached, float((law[right > 0] / right[right > 0]).max()))
    assert reached > 1.05  # the bound is about something: texts do come out too often


@pytest.mark.parametrize("share", [0, -1, 1.1, float("nan"), float("inf")])
def test_a_share_outside_its_range_is_refused(share):
    with pytest.raises(SpecproofError, match=r"share=.* above 0 and at most 1"):
        audit_lossy(partial(lenience, share=share), [0.5, 0.5], [0.5, 0.5])
