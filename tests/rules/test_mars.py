"""MARS on rows: what a ratio of logits comes to, and what it needs that rows do not have."""

from fractions import Fraction as F
from functools import partial
from math import exp

import pytest
import torch
from exact_rule import TREES, disagreement

from specproof.audit.lossy import audit_lossy
from specproof.errors import SpecproofError
from specproof.rules.mars import mars
from specproof.rules.spec.mars import mars as spec
from specproof.tree import Tree
from specproof.types import Draft


def kept(row, token, **settings):
    target = torch.as_tensor(row, dtype=torch.float64).expand(1, 2, -1)
    return bool(
        mars(target, Draft((Tree.chain(1),), torch.tensor([[token]]), None, "point"), **settings).stop[0, 1]
    )


@pytest.mark.parametrize(("logits", "passes"), [((2.0, 1.7), False), ((12.0, 11.7), True), ((2.0, 1.81), True)])
def test_the_same_distribution_passes_or_not_by_the_size_of_its_logits(logits, passes):
    assert (logits[1] / logits[0] > 0.9) == passes
    row = torch.tensor(logits, dtype=torch.float64).softmax(-1)
    assert kept(row, 1, peak=logits[0]) == passes
    assert kept(row, 0, peak=logits[0])


@pytest.mark.parametrize(("peak", "share"), [(2, 0.819), (10, 0.368), (40, 0.018)])
def test_how_much_less_likely_a_close_second_may_be(peak, share):
    exact = exp(-0.1 * peak)
    assert exact == pytest.approx(share, abs=5e-4)
    for factor, passes in ((0.999, False), (1.001, True)):
        row = torch.tensor([1, exact * factor, 0.0]) / (1 + exact * factor)
        assert kept(row, 1, peak=peak) == passes


@pytest.mark.parametrize("drawn", ["iid", "point"])
def test_torch_rule_is_its_specification(drawn):
    assert disagreement(mars, spec, TREES, drawn, rounds=8) < 1e-13
    assert disagreement(mars, spec, TREES, drawn, dtype=torch.float32, rounds=8) < 1e-5
    exact = partial(spec, theta=F(1, 2), peak=F(3))
    assert disagreement(partial(mars, theta=0.5, peak=3), exact, TREES, drawn, seed=1, rounds=8) < 1e-13


def test_only_the_first_choice_passes_without_a_positive_peak():
    target = torch.tensor([[[0.5, 0.49, 0.01]] * 2] * 2, dtype=torch.float64)
    draft = Draft((Tree.chain(1),) * 2, torch.tensor([[1], [0]]), None, "point")
    for peak, stops in ((-1.0, [[1, 0], [0, 1]]), (1.0, [[0, 1], [0, 1]])):
        assert mars(target, draft, peak=torch.full((2, 2), peak)).stop.tolist() == stops


def test_equal_probabilities_rank_by_token():
    assert kept([0.4, 0.4, 0.2], 0, peak=0.001)
    # token 1 is second, and as likely as the first: close for every peak
    assert kept([0.4, 0.4, 0.2], 1, peak=0.001)
    assert not kept([0.4, 0.3, 0.3], 2, peak=100)  # token 1 is second


def test_the_output_is_the_argmax_wherever_the_draft_does_not_pass():
    result = audit_lossy(partial(mars, peak=1.0), [0.5, 0.3, 0.2], [0.0, 0.0, 1.0])
    assert result.tv == pytest.approx(0.5, abs=1e-15)  # the argmax always, instead of half of the time
    assert result.rejected == 1


@pytest.mark.parametrize("settings", [{"theta": 1.1}, {"theta": -0.1}, {"peak": 0}, {"peak": float("nan")}])
def test_settings_outside_their_range_are_refused(settings):
    with pytest.raises(SpecproofError, match="is not allowed: give a number"):
        audit_lossy(partial(mars, **settings), [0.5, 0.5], [0.5, 0.5])
