"""One prefix, many draws: cells, exact p-values, the e-value that may be looked at, closed forms."""

from itertools import product
from math import factorial

import numpy as np
import pytest
from worlds import too_many

from specproof.audit.white import faults
from specproof.audit.white.panel import cells, dirichlet_log_e, g_statistic, pooled, repeated_test
from specproof.audit.white.planner import noncentrality, panel_n95
from specproof.errors import SpecproofError

TARGET, DRAFT = np.array([[0.6, 0.3, 0.1]]), np.array([[0.4, 0.5, 0.1]])
ZIPF = np.arange(1, 51) ** -1.3 / (np.arange(1, 51) ** -1.3).sum()


def test_lambdas_of_the_chi_square_test():
    found = [noncentrality(freedom) for freedom in (2, 15, 30, 50, 100, 400)]
    assert found == pytest.approx([27.5, 44.7, 55.7, 66.5, 86.3, 153.6], abs=0.05)


def test_predictions_on_the_toy():
    """Resampling from the target needs 1,031 draws and |target - draft| 550, in closed form."""
    assert panel_n95(faults.redrawn(TARGET, DRAFT)[0], TARGET[0]) == pytest.approx(1031, rel=0.003)
    assert panel_n95(faults.absolute(TARGET, DRAFT)[0], TARGET[0]) == pytest.approx(550, rel=0.003)
    assert panel_n95(TARGET[0], TARGET[0]) == np.inf
    assert panel_n95(np.array([0.5, 0.3, 0.2]), np.array([0.7, 0.3, 0.0])) == pytest.approx(13.4, abs=0.1)


@pytest.mark.parametrize("samples", [20, 200, 5_000])
def test_every_token_with_mass_has_one_cell(samples):
    row = np.concatenate([ZIPF * 0.9, np.zeros(5), np.full(500, 0.1 / 500)])
    owner = cells(row, samples)
    assert (owner[row == 0] == -1).all()
    assert set(owner[row > 0]) == set(range(owner.max() + 1))
    masses = np.bincount(owner[row > 0], row[row > 0])
    assert masses.sum() == pytest.approx(1)
    assert (samples * masses >= 5 - 1e-9).all()
    tail = samples * row < 5
    assert len(set(owner[tail & (row > 0)])) <= 30
    assert len(set(owner[~tail])) == (~tail).sum()


def test_pvalues_are_uniform_or_larger():
    """300 runs of a correct engine at 0.01 and 0.1; false-alarm rate of this test 1e-4 by the binomial law."""
    rng, runs = np.random.default_rng(1), 300
    found = [repeated_test(rng.multinomial(100, ZIPF), ZIPF, seed=run) for run in range(runs)]
    for level in (0.01, 0.1):
        for values in ([fit.g_pvalue for fit in found], [fit.pearson_pvalue for fit in found]):
            assert sum(value <= level for value in values) < too_many(runs, level, 4)


def test_a_bias_is_found_and_a_forbidden_token_at_once():
    """Caught by the size that 95 % power is predicted for, doubled: a miss is rarer than 1e-4."""
    out = faults.redrawn(TARGET, DRAFT)[0]
    counts = np.random.default_rng(2).multinomial(3 * 1031, out)
    fit = repeated_test(counts, TARGET[0])
    assert fit.g_pvalue == fit.pearson_pvalue == 1e-4
    assert fit.tv == pytest.approx(0.08, abs=0.03)
    assert fit.forbidden == 0
    fit = repeated_test(np.array([6, 3, 1]), np.array([0.7, 0.3, 0.0]))
    assert fit.forbidden == 1
    assert fit.g_pvalue == fit.pearson_pvalue == 0


def test_few_draws_or_none_are_refused():
    for counts, draws in ((np.zeros(3, dtype=np.int64), 9_999), (np.array([1, 1, 1]), 99)):
        with pytest.raises(SpecproofError, match="give at least one sample"):
            repeated_test(counts, TARGET[0], draws=draws)


def test_the_anytime_value_is_a_fair_game():
    """Its mean over all counts is one after every number of draws, exactly."""
    masses = np.array([0.5, 0.3, 0.2])
    for draws in (1, 2, 5):
        total = 0.0
        for counts in product(range(draws + 1), repeat=3):
            if sum(counts) == draws:
                ways = factorial(draws) / np.prod([factorial(count) for count in counts])
                chance = ways * np.prod(masses ** np.array(counts))
                total += chance * np.exp(dirichlet_log_e(np.array(counts), masses))
        assert total == pytest.approx(1, abs=1e-9)


def test_the_anytime_value_convicts_and_a_cell_without_mass_at_once():
    counts = np.random.default_rng(3).multinomial(3_000, faults.absolute(TARGET, DRAFT)[0])
    assert dirichlet_log_e(counts, TARGET[0]) > np.log(1000)
    assert dirichlet_log_e(np.array([5, 0, 1]), np.array([0.7, 0.3, 0.0])) == np.inf
    assert dirichlet_log_e(np.random.default_rng(3).multinomial(3_000, TARGET[0]), TARGET[0]) < np.log(1000)


def test_g_of_expected_counts_is_zero():
    observed, masses = pooled(np.array([600, 300, 100]), TARGET[0])
    assert g_statistic(observed, masses) == pytest.approx(0)
