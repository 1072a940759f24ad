"""Temperature 0, teacher-forced: margins in closed form, three kinds of tokens, how many ties to expect."""

import numpy as np
import pytest
from scipy.stats import binom

from specproof.audit.white.near_tie import margin_for, near_ties, poisson_binomial_tail


@pytest.mark.parametrize(("spread", "margin"), [(0.003, 0.020), (0.01, 0.067), (0.03, 0.20)])
def test_margins(spread, margin):
    assert margin_for(spread) == pytest.approx(margin, rel=0.02)


def test_ties_are_told_from_faults():
    runners_up = np.array([1.0, 0.01, 2.0, 0.5])
    right = near_ties(np.zeros(4), runners_up, 0.003)
    assert right.ok
    assert str(right).startswith("PASS")
    tie = near_ties(np.array([0, 0.01, 0, 0]), runners_up, 0.003)
    assert (tie.ok, tie.ties, tie.fails) == (True, 1, 0)
    assert str(tie).startswith("NEAR-TIE")
    assert tie.pvalue == pytest.approx(tie.expected, rel=1e-3)
    fault = near_ties(np.array([0, 0.01, 0, 0.5]), runners_up, 0.003)
    assert (fault.ok, fault.ties, fault.fails, fault.worst) == (False, 1, 1, 0.5)
    assert str(fault).startswith("FAIL")


def test_without_rounding_any_gap_is_a_fault():
    assert near_ties(np.array([1e-9]), np.array([1e-9]), 0.0).fails == 1


def test_the_number_of_ties_by_chance():
    assert poisson_binomial_tail(np.full(20, 0.1), 4) == pytest.approx(binom.sf(3, 20, 0.1))
    assert poisson_binomial_tail(np.array([0.5, 0.2]), 2) == pytest.approx(0.1)
    assert poisson_binomial_tail(np.array([0.5, 0.2]), 0) == 1
