"""Every verdict, its exit code and its words, from findings made by hand."""

import numpy as np
import pytest

from specproof.audit.answer import Verdict
from specproof.audit.white.evidence import Mixture
from specproof.audit.white.foresight import UNSEEN
from specproof.audit.white.ledger import Ledger
from specproof.audit.white.near_tie import near_ties
from specproof.audit.white.plan import PANEL, Plan, digest
from specproof.audit.white.planner import Prediction
from specproof.audit.white.result import WhiteResult
from specproof.audit.white.verdict import Arms, Findings, decide
from specproof.errors import SpecproofError

PLAN = Plan()
BF16 = Ledger(100, 0.01, 0.009, 0.014, 0.015, 0.03)
QUIET, LOUD = Arms(tokens=4096, highest=1.0), Arms(tokens=500, highest=9.0)
SEEN = (Prediction("a fault", 0.1, 900.0, "a bet", 0.05), Prediction("another", 0.02, 9000.0, "a bet", 0.03))
GREEDY = near_ties(np.zeros(9), np.ones(9), 0.003)
TIED = near_ties(np.array([0.0, 0.01]), np.ones(2), 0.003)
WRONG = near_ties(np.array([0.0, 1.0]), np.ones(2), 0.003)


def findings(**changed):
    usual = {"bets": QUIET, "control": QUIET, "ledger": Ledger.empty(), "drafted": 100, "accepted": 60}
    return Findings(**usual | {"predictions": SEEN, "texts": 64} | changed)


CASES = [
    ({}, Verdict.LOSSLESS, "no fault was seen"),
    ({"bets": LOUD, "fault": "a fault", "tv": 0.1}, Verdict.BIASED, "best fit: a fault, TV about 0.100"),
    ({"bets": Arms(forbidden=2)}, Verdict.BIASED, "2 tokens came out that have probability 0"),
    ({"bets": LOUD, "accepted": 100}, Verdict.BIASED, "best fit"),
    ({"misended": 1}, Verdict.BIASED, "1 of 64 texts do not end"),
    ({"control": LOUD}, Verdict.NO_BASELINE, "without speculation"),
    ({"control": LOUD, "bets": LOUD}, Verdict.NO_BASELINE, "without speculation"),
    ({"ledger": Ledger(9, 0.3, 0.3, 0.5, 0.6, 1.0)}, Verdict.NO_BASELINE, "two ways of running it"),
    ({"accepted": 0}, Verdict.NOT_EXERCISED, "acceptance was 0"),
    ({"accepted": 100}, Verdict.NOT_EXERCISED, "acceptance was 1"),
    ({"drafted": 0, "accepted": 0}, Verdict.NOT_EXERCISED, "nothing was drafted"),
    ({"predictions": (Prediction("a fault", 0.1, 9e9, "", 0.2),)}, Verdict.INCONCLUSIVE, "give more tokens"),
    ({"predictions": ()}, Verdict.INCONCLUSIVE, "give more tokens"),
    ({"predictions": (*SEEN, UNSEEN)}, Verdict.INCONCLUSIVE, "nothing here sees any fault of drafts"),
    # 128 draws show 0.2, so 512 show 0.1.
    ({"predictions": (Prediction("a fault", 0.1, 9e9, PANEL, 0.2),)}, Verdict.INCONCLUSIVE, "takes 512 draws"),
    ({"notes": ("speculation is off for this request",)}, Verdict.INCONCLUSIVE, "speculation is off"),
    (
        {"bets": Arms(highest=9.0, tolerant=1.0), "tv": 0.02, "ledger": BF16},
        Verdict.WITHIN_NUMERICS,
        "no more than rounding",
    ),
    (
        {"bets": Arms(highest=9.0, tolerant=1.0), "tv": 0.2, "ledger": BF16},
        Verdict.INCONCLUSIVE,
        "not yet by more than rounding",
    ),
    ({"bets": Arms(highest=9.0, tolerant=8.0), "tv": 0.2, "ledger": BF16}, Verdict.BIASED, "best fit"),
    ({"greedy": GREEDY, "greedy_control": GREEDY}, Verdict.EXACT, "9 of 9 tokens are the likeliest"),
    ({"greedy": TIED, "greedy_control": GREEDY}, Verdict.WITHIN_NUMERICS, "1 of 2 tokens"),
    ({"greedy": WRONG, "greedy_control": GREEDY}, Verdict.BIASED, "1 tokens at temperature 0"),
    ({"greedy": WRONG, "greedy_control": WRONG}, Verdict.NO_BASELINE, "without speculation"),
]


@pytest.mark.parametrize(("changed", "verdict", "words"), CASES)
def test_verdicts(changed, verdict, words):
    found = findings(**changed)
    decided, reason = decide(found, PLAN)
    assert decided is verdict
    assert words in reason
    result = WhiteResult(decided, reason, {"drafter": "D", "rule": "R"}, PLAN, "abc", found)
    assert str(result).startswith(f"{verdict.value}: engine with drafter D, rule R: ")
    assert result.ok == (result.exit_code == 0) == (verdict.exit_code == 0)


def test_exit_codes():
    codes = {verdict.name: verdict.exit_code for verdict in Verdict}
    assert codes == {
        "EXACT": 0,
        "LOSSLESS": 0,
        "WITHIN_NUMERICS": 0,
        "BIASED": 1,
        "NO_BASELINE": 3,
        "NOT_EXERCISED": 3,
        "INCONCLUSIVE": 3,
    }


def test_what_a_result_says():
    found = findings()
    result = WhiteResult(Verdict.LOSSLESS, "no fault was seen", {}, PLAN, "abc", found, "specproof audit engine")
    assert result.pvalue == pytest.approx(2 * np.exp(-1))  # bets have half of alpha
    assert (result.samples, result.tv, result.power) == (4096, None, 0.05)
    assert "p-value 0.74, false alarms <= 0.001; bets, at any time: 0.37 after 4096 tokens" in str(result)
    assert "known faults of TV 0.050 are caught with 95 % power (least: a fault)" in str(result)
    assert "plan abc; again: specproof audit engine" in str(result)


def test_a_plan_is_known_by_its_hash():
    mixture = Mixture()
    first = digest(PLAN.described(mixture, {"drafter": "ngram"}))
    assert first == digest(Plan().described(Mixture(), {"drafter": "ngram"}))
    others = [
        Plan(alpha=0.01).described(mixture, {"drafter": "ngram"}),
        PLAN.described(Mixture(mixture.arms[:3]), {"drafter": "ngram"}),
        PLAN.described(Mixture(everywhere=0.95, by_stratum=0.0), {"drafter": "ngram"}),
        PLAN.described(mixture, {"drafter": "model"}),
    ]
    assert len({first, *map(digest, others)}) == 5
    assert len(set(PLAN.seeds(0, 500)) | set(PLAN.seeds(1, 500))) == 1000


@pytest.mark.parametrize(
    ("name", "value"),
    [("alpha", 0), ("alpha", 1.0), ("tokens", 0), ("length", 0), ("length", 513), ("at_once", 0), ("detect", 1.0)],
)
def test_plans_that_make_no_sense_are_refused(name, value):
    with pytest.raises(SpecproofError, match=f"{name}={value}"):
        Plan(**{name: value})
