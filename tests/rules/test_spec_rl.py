"""SPEC-RL as published: not lossless even at factor 1, exact values of how much."""

from fractions import Fraction as F
from functools import partial

import pytest
import torch
from exact_rule import CHAINS, P, Q, disagreement, distance, one_step

from specproof.audit.lossy import audit_lossy
from specproof.errors import SpecproofError
from specproof.rules.spec.spec_rl import spec_rl as spec
from specproof.rules.spec_rl import spec_rl

GOLDEN = [
    (F(1), [F(1, 3), F(4, 9), F(2, 9)], F(1, 6)),
    (F(3, 2), [F(7, 24), F(5, 12), F(7, 24)], F(5, 24)),
    (F(2), [F(1, 4), F(7, 18), F(13, 36)], F(1, 4)),
]


@pytest.mark.parametrize(("factor", "law", "tv"), GOLDEN)
def test_golden_values(factor, law, tv):
    assert one_step(partial(spec, factor=factor), P, Q) == law
    assert distance(law, P) == tv
    rule = partial(spec_rl, factor=float(factor))
    assert audit_lossy(rule, [float(p) for p in P], [float(q) for q in Q]).tv == pytest.approx(
        float(tv), abs=1e-15
    )


@pytest.mark.parametrize("drawn", ["iid", "point"])
@pytest.mark.parametrize("factor", [F(1), F(3, 2), F(8)])
def test_torch_rule_is_its_specification(drawn, factor):
    rule = partial(spec_rl, factor=float(factor))
    assert disagreement(rule, partial(spec, factor=factor), CHAINS, drawn) < 1e-13
    assert disagreement(rule, partial(spec, factor=factor), CHAINS, drawn, dtype=torch.float32) < 1e-5


def test_default_is_factor_one():
    assert one_step(spec, P, Q) == GOLDEN[0][1]
    assert audit_lossy(spec_rl, [0.5, 0.3, 0.2], [0.1, 0.5, 0.4]) == audit_lossy(
        partial(spec_rl, factor=1), [0.5, 0.3, 0.2], [0.1, 0.5, 0.4], name="spec_rl"
    )


@pytest.mark.parametrize("factor", [0.9, 0, float("nan"), float("inf")])
def test_a_factor_below_one_is_refused(factor):
    with pytest.raises(SpecproofError, match=r"factor=.* at least 1"):
        audit_lossy(partial(spec_rl, factor=factor), [0.5, 0.5], [0.5, 0.5])
