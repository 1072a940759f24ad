"""What a panel does to the verdict, from findings made by hand."""

import pytest

from specproof.audit.answer import Verdict
from specproof.audit.white.draws import PanelResult
from specproof.audit.white.ledger import Ledger
from specproof.audit.white.plan import BETS, PANEL, Plan
from specproof.audit.white.planner import Prediction
from specproof.audit.white.result import WhiteResult
from specproof.audit.white.verdict import Arms, Findings, decide

PLAN = Plan()
QUIET = {"pvalue": 0.5, "by_depth": (0.4, 0.6), "tolerant": 0.6, "strata": 0.1, "strata_tolerant": 0.1}
REST = {"by_stratum": {}, "repeats": 0.0, "forbidden": 0, "edge": 0, "tv": 0.02}


def panel(**changed):
    return PanelResult(prefixes=8, draws=1024, contexts=40, samples=2000, **QUIET | REST | changed)


def findings(**changed):
    usual = {"bets": Arms(tokens=4096, highest=1.0), "control": Arms(tokens=1024), "ledger": Ledger.empty()}
    counts = {"drafted": 100, "accepted": 60, "texts": 64, "tv": 0.1, "fault": "a fault", "panel": panel()}
    return Findings(
        **usual | counts | {"predictions": (Prediction("a fault", 0.1, 900.0, "panel", 0.05),)} | changed
    )


BF16 = Ledger(100, 0.01, 0.009, 0.014, 0.015, 0.03)
ALARM = panel(pvalue=1e-5, tolerant=1e-5)
CASES = [
    ({}, Verdict.LOSSLESS, "no fault was seen"),
    ({"panel": ALARM}, Verdict.BIASED, "draws after repeated prefixes; best fit: a fault"),
    ({"panel": panel(strata=12.0, strata_tolerant=12.0)}, Verdict.BIASED, "draws after repeated prefixes"),
    ({"panel": panel(repeats=12.0)}, Verdict.BIASED, "draws after repeated prefixes"),
    ({"panel": panel(pvalue=0.0, tolerant=0.0, forbidden=3)}, Verdict.BIASED, "3 tokens came out that have prob"),
    ({"panel": ALARM, "panel_control": panel()}, Verdict.BIASED, "best fit"),
    ({"panel": ALARM, "panel_control": ALARM}, Verdict.NO_BASELINE, "without speculation, either"),
    ({"panel": ALARM, "accepted": 100}, Verdict.BIASED, "best fit"),
    ({"panel": panel(pvalue=1e-5), "ledger": BF16, "tv": 0.02}, Verdict.WITHIN_NUMERICS, "no more than rounding"),
    ({"panel": panel(pvalue=1e-5), "ledger": BF16}, Verdict.INCONCLUSIVE, "not yet by more than rounding"),
    ({"panel": panel(pvalue=4e-4)}, Verdict.LOSSLESS, "no fault was seen"),  # its level is 3e-4
]


@pytest.mark.parametrize(("changed", "verdict", "words"), CASES)
def test_verdicts_with_a_panel(changed, verdict, words):
    found = findings(**changed)
    decided, reason = decide(found, PLAN)
    assert decided is verdict, reason
    assert words in reason
    result = WhiteResult(decided, reason, {"drafter": "D", "rule": "R"}, PLAN, "abc", found)
    if decided is Verdict.BIASED:
        assert result.pvalue <= PLAN.alpha
    assert "1024 draws after 8 repeated prefixes, 2000 tokens in 40 contexts" in str(result)


def test_the_answer_holds_the_four_tests_and_their_levels():
    result = WhiteResult(Verdict.LOSSLESS, "no fault was seen", {}, PLAN, "abc", findings())
    answer = result.answer()
    assert [check.level for check in answer.tests] == pytest.approx([5e-4, 3e-4, 1e-4, 1e-4])
    assert {check.name for check in answer.tests} >= {BETS, PANEL}
    assert answer.document()["draws"] == 1024
    assert (answer.families[0].by, answer.families[0].detectable) == ("panel", 0.05)
    assert answer.exit_code == result.exit_code == 0
