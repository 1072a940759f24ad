import numpy as np
import pytest
from scipy.stats import chisquare

from specproof.audit.goodness import MIN_EXPECTED, fit, smallest_tv

LAW = np.array([0.4, 0.3, 0.2, 0.1])


def test_pvalue_is_pearsons():
    counts = np.array([390, 310, 210, 90])
    found = fit(counts, LAW, 1e-3)
    assert found.pvalue == pytest.approx(chisquare(counts, 1000 * LAW).pvalue, rel=1e-12)
    assert found.tv == pytest.approx(0.02)
    assert found.forbidden == 0


def test_an_outcome_of_probability_zero_is_a_definite_fail():
    found = fit(np.array([500, 499, 1]), np.array([0.5, 0.5, 0]), 1e-3)
    assert found.forbidden == 1
    assert found.pvalue == 0


def test_small_cells_are_pooled_and_what_they_could_hide_is_admitted():
    law = np.array([0.97, 0.01, 0.01, 0.01])
    counts = np.array([970, 30, 0, 0])  # moves mass inside the pool only
    found = fit(counts, law, 1e-3)
    assert found.pvalue == pytest.approx(1.0)
    assert found.tv == pytest.approx(0.02)
    assert found.detectable == pytest.approx(smallest_tv(1000, 1, 1e-3) + 0.03)
    assert found.tv < found.detectable


def test_pool_takes_in_larger_cells_until_it_is_large_enough():
    law = np.array([0.5, 0.49, 0.01])
    found = fit(np.array([500, 490, 10]), law, 1e-3)
    assert law[2] * 1000 < MIN_EXPECTED
    assert found.detectable == pytest.approx(smallest_tv(1000, 1, 1e-3) + 0.5)


def test_false_alarms_keep_the_level():
    noise = np.random.default_rng(1)
    pvalues = np.array([fit(noise.multinomial(2000, LAW), LAW, 0.01).pvalue for _ in range(4000)])
    # Binomial(4000, .01) lies in here with probability 0.9999.
    assert 18 <= (pvalues < 0.01).sum() <= 68


def test_stated_power_is_reached_in_the_worst_direction():
    samples, level = 5000, 1e-4
    tv = smallest_tv(samples, len(LAW) - 1, level)
    shift = np.array([-1.0, 1.0, 1.0, -1.0]) * LAW  # in proportion to the law: the hardest to see
    wrong = LAW + shift / np.abs(shift).sum() * 2 * tv
    assert np.abs(wrong - LAW).sum() / 2 == pytest.approx(tv)
    noise = np.random.default_rng(2)
    caught = np.mean([fit(noise.multinomial(samples, wrong), LAW, level).pvalue < level for _ in range(2000)])
    assert 0.93 < caught < 0.97


def test_one_cell_detects_by_forbidden_outcomes():
    law = np.array([0.0, 1.0])
    assert fit(np.array([0, 1000]), law, 1e-3).pvalue == 1
    tv = smallest_tv(1000, 0, 1e-3)
    assert 1 - (1 - tv) ** 1000 == pytest.approx(0.95)
