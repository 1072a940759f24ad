"""Typical acceptance: its threshold, its law, and that nothing of it is random but the extra token."""

from fractions import Fraction as F
from functools import partial
from math import exp, log

import pytest
import torch
from exact_rule import TREES, disagreement

from specproof.audit.lossy import audit_lossy
from specproof.errors import SpecproofError
from specproof.rules.longest import longest_path
from specproof.rules.spec.numbers import EXACT
from specproof.rules.spec.typical import exp_minus_entropy
from specproof.rules.spec.typical import typical as spec
from specproof.rules.typical import entropy, typical
from specproof.tree import Tree
from specproof.types import Draft


def kept(rule, row, token):
    """Whether the rule keeps one drafted token, exactly."""
    target = torch.tensor([[row, row]], dtype=torch.float64)
    stop = rule(target, Draft((Tree.chain(1),), torch.tensor([[token]]), None, "point")).stop[0]
    assert sorted(stop.tolist()) == [0, 1]
    return bool(stop[1])


def test_threshold_of_a_uniform_row_over_ten_is_003():
    row = [F(1, 10)] * 10
    assert exp_minus_entropy(row) == pytest.approx(1 / 10, abs=1e-15)
    assert entropy(torch.full((10,), 0.1, dtype=torch.float64)) == pytest.approx(log(10), abs=1e-12)
    # The paper's values give .3 / 10 = .03, and the code's exchange of the two .009.
    for epsilon, delta, bar in ((0.09, 0.3, 0.03), (0.3, 0.09, 0.009)):
        least = [bar + 1e-6] + [(1 - bar - 1e-6) / 9] * 9  # nearly uniform, so nearly the same threshold
        exact = min(epsilon, delta * exp(-float(entropy(torch.tensor(least, dtype=torch.float64)))))
        rule = partial(typical, epsilon=epsilon, delta=delta)
        assert kept(rule, least, 0) == (least[0] > exact)
        assert kept(rule, [0.1] * 10, 0)


def test_the_cap_epsilon_binds_for_certain_rows_and_only_with_the_papers_values():
    # Entropy near 0: delta · exp(-entropy) is near delta, so the smaller of the two decides.
    assert not kept(typical, [0.915, 0.085], 1)  # below epsilon .09
    assert kept(typical, [0.905, 0.095], 1)
    exchanged = partial(typical, epsilon=0.3, delta=0.09)
    assert kept(exchanged, [0.915, 0.085], 1)  # .3 never binds: .09 · exp(-entropy) is smaller


def test_a_token_on_the_threshold_does_not_pass():
    assert not kept(partial(typical, epsilon=0.25, delta=100), [0.75, 0.25], 1)
    assert kept(partial(typical, epsilon=0.2499, delta=100), [0.75, 0.25], 1)


@pytest.mark.parametrize("drawn", ["iid", "point"])
def test_torch_rule_is_its_specification(drawn):
    assert disagreement(typical, spec, TREES, drawn) < 1e-13
    assert disagreement(typical, spec, TREES, drawn, dtype=torch.float32) < 1e-5
    settings = {"epsilon": 0.4, "delta": 0.6}
    exact = partial(spec, epsilon=F("0.4"), delta=F("0.6"))
    assert disagreement(partial(typical, **settings), exact, TREES, drawn, seed=1) < 1e-13


def test_at_temperature_zero_only_the_targets_choice_passes():
    assert kept(typical, [0.0, 1.0, 0.0], 1)
    assert not kept(typical, [0.0, 1.0, 0.0], 0)
    assert audit_lossy(typical, [0, 1, 0], [0.2, 0.3, 0.5]).tv == 0


def test_the_law_is_the_drafts_where_all_passes():
    result = audit_lossy(typical, [0.4, 0.35, 0.25], [0.1, 0.2, 0.7])
    assert result.rejected == 0
    assert result.tv == pytest.approx(result.distance, abs=1e-15)
    assert result.slack == pytest.approx(0, abs=1e-15)


def test_longest_path_prefers_depth_then_order():
    tree = Tree((-1, -1, 0, 0, 1))
    draft = Draft((tree, tree, tree), torch.zeros(3, 5, dtype=torch.long), None, "point")
    passes = torch.tensor([[1, 1, 0, 1, 1], [1, 1, 0, 0, 1], [0, 0, 1, 1, 1]], dtype=torch.bool)
    assert longest_path(draft, passes).argmax(1).tolist() == [4, 5, 0]


def test_a_symbolic_specification_takes_its_typicality():
    law = spec(
        EXACT, [[F(1, 2), F(1, 2)]] * 2, [], Tree.chain(1), [0], delta=F(2, 3), typicality=lambda row: F(1, 2)
    )
    assert law.stop == [0, 1]  # 1/2 > min(9/100, 1/3)


@pytest.mark.parametrize("settings", [{"epsilon": 0}, {"epsilon": 1.5}, {"delta": 0}, {"delta": float("inf")}])
def test_settings_outside_their_range_are_refused(settings):
    with pytest.raises(SpecproofError, match="is not allowed: give a number above 0"):
        audit_lossy(partial(typical, **settings), [0.5, 0.5], [0.5, 0.5])
