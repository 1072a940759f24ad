"""Every seeded fault is caught at its level with the distance that is known, and every control passes."""

from collections import Counter
from dataclasses import replace

import pytest

from specproof.audit.mutants import CONTROLS, MUTANTS
from specproof.audit.mutants.case import EngineAudit
from specproof.audit.selftest import self_test

CASES = {case.id: case for case in (*MUTANTS, *CONTROLS)}


@pytest.mark.parametrize("case", MUTANTS, ids=lambda case: f"{case.id} {case.name}")
def test_every_fault_is_caught(case):
    (row,) = self_test([case], []).rows
    assert row.caught, str(row)
    assert row.level == case.level
    if isinstance(case.expected, str):
        assert case.expected in row.says
    elif case.expected is not None:
        assert row.tv == pytest.approx(float(case.expected), abs=1e-9)
    else:
        # Rows of a random transformer: no distance is known, yet it is no rounding.
        assert isinstance(case.audit, EngineAudit)
        assert 1e-3 < row.tv <= 1
    assert row.ok
    assert row.verdict == "caught"


@pytest.mark.parametrize("case", CONTROLS, ids=lambda case: f"{case.id} {case.name}")
def test_every_control_passes(case):
    (row,) = self_test([], [case]).rows
    assert not row.caught, str(row)
    assert row.ok
    assert row.verdict == "passed"
    assert row.tv is None or row.tv < 1e-12


def test_the_catalogue_is_spread_over_parts_and_levels():
    assert len(MUTANTS) >= 30
    assert len(CONTROLS) >= 4
    assert len(CASES) == len(MUTANTS) + len(CONTROLS), "an id twice"
    assert {"C1", "C3"} <= CASES.keys()
    kinds = Counter(case.kind for case in MUTANTS)
    assert min(kinds[kind] for kind in ("rule", "draw", "noise", "processor", "rows", "cache", "commit")) >= 3
    assert {case.level for case in MUTANTS} == {"rule", "engine", "drafter", "backend", "noise"}
    assert all(0 < len(case.description) <= 90 for case in CASES.values())


def test_published_distances_to_their_printed_digits():
    """Field faults M1 to M14; M8 was a simulation there and is an exact integral here."""
    printed = {
        "M1": 0.15,
        "M2": 0.0714,
        "M3": 0.2291,
        "M4": 0.4,
        "M5": 0.16,
        "M6": 0.0946,
        "M10": 0.375,
        "M11": 0.1,
        "M14": 0.7,
    }
    for name, distance in printed.items():
        assert float(CASES[name].expected) == pytest.approx(distance, abs=5e-5)
    assert float(CASES["M8"].expected) == pytest.approx(0.0297, abs=5e-4)


class TestVerdicts:
    def test_a_control_in_the_place_of_a_fault_is_missed(self):
        result = self_test([CASES["C7"]], [])
        assert not result.ok
        assert result.rows[0].verdict == "missed"
        assert str(result).startswith("NOT SOUND: 0 of 1 seeded faults caught")

    def test_a_fault_in_the_place_of_a_control_is_a_false_alarm(self):
        result = self_test([], [CASES["M4"]])
        assert not result.ok
        assert result.rows[0].verdict == "false alarm"

    def test_another_distance_is_not_good_enough(self):
        result = self_test([replace(CASES["M4"], expected=0.41)], [])
        assert not result.ok
        assert result.rows[0].verdict == "wrong TV"

    def test_nor_are_other_words(self):
        assert not self_test([replace(CASES["B9"], expected="the wrong side of an edge")], []).ok

    def test_a_good_result_states_samples_and_false_alarms(self):
        result = self_test([CASES["M4"]], [CASES["C7"]])
        assert result.ok
        assert str(result) == (
            "SOUND: 1 of 1 seeded faults caught, 1 of 1 controls passed; "
            "exact answers: 0 samples, false-alarm rate 0"
        )
