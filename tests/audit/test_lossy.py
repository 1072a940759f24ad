"""The price of a lossy rule: P(reject) + TV(output, target) >= TV(draft, target), for each of them, exactly."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from specproof.audit.lossy import LossyResult, audit_lossy
from specproof.backends.table import TableModel
from specproof.rules import RULES, find_rule

LOSSY = [name for name, rule in RULES.items() if not rule.lossless]
SETTINGS = [
    "lenience:0.1",
    "lenience:0.9",
    "typical:0.3,0.9",
    "typical:0.01,0.3",
    "mars:0.5,1",
    "threshold:0.2",
    "threshold:1,0.5",
    "spec_rl:1.5",
    "spec_rl:20",
]


def instances(count):
    """Pairs of rows of 2 to 5 tokens: zeros, one-hot rows, equal rows and disjoint support included."""
    generator = torch.Generator().manual_seed(6)
    for number in range(count):
        size = 2 + number % 4
        rows = [TableModel.random(size, 0, generator, zeros=zeros).levels[0][0].tolist() for zeros in (0.3, 0.3)]
        yield (rows[0], rows[0]) if number % 10 == 9 else rows


@pytest.mark.parametrize("name", [*LOSSY, *SETTINGS])
def test_rejections_and_distance_sum_to_at_least_the_drafts_distance(name):
    rule = find_rule(name)
    farthest = 0.0
    for target, draft in instances(60):
        for drawn in set(rule.draws) - {"without_replacement"}:
            result = audit_lossy(rule, target, draft, drawn)
            assert result.ok, (result, target, draft)
            farthest = max(farthest, result.tv)
    if rule.name != "hsd_published":  # exact for one token
        assert farthest > 0.01, "a lossy rule that is lossless everywhere belongs elsewhere"


def test_rejection_meets_the_bound_exactly():
    for target, draft in instances(50):
        result = audit_lossy(RULES["rejection"], target, draft)
        assert abs(result.slack) < 1e-12
        assert result.tv < 1e-12


def test_lenience_trades_one_for_one_and_keeps_its_upper_bound():
    for target, draft in instances(50):
        for share in ("1/10", "1/2", "9/10"):
            result = audit_lossy(find_rule(f"lenience:{share}"), target, draft)
            assert result.excess <= 1 / Fraction(share) + 1e-12
    golden = audit_lossy(find_rule("lenience:0.5"), [1 / 2, 1 / 3, 1 / 6], [1 / 6, 1 / 3, 1 / 2])
    assert golden.excess == pytest.approx(2, abs=1e-12)  # the bound is met
    assert golden.slack == pytest.approx(1 / 6 + 3 / 14 - 1 / 3, abs=1e-12)


def test_what_breaks_the_bound_is_not_ok():
    result = LossyResult("impossible", tv=0.1, rejected=0.1, distance=0.3, excess=1.0)
    assert not result.ok
    assert replace(result, rejected=0.2).ok


def test_report_names_all_figures():
    text = str(audit_lossy(find_rule("lenience:0.5"), [1 / 2, 1 / 3, 1 / 6], [1 / 6, 1 / 3, 1 / 2]))
    assert text.startswith("LOSSY: lenience:0.5: TV 0.214286, rejects 0.166667")
    assert "at least 0.333333" in text
    assert "more than 2 times" in text
    assert str(audit_lossy(RULES["rejection"], [0.5, 0.5], [0.1, 0.9])).startswith("EXACT HERE: rejection")
