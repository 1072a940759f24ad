"""Do counts follow a known law? The chi-square test, and the smallest deviation it would have caught."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2

# Cells that expect fewer are pooled. With this many, the tail of the chi-square law is right to a factor of
# 1.4 down to levels of 2e-6 (3e6 simulated null runs of 9 to 27 cells); the audit keeps a factor of 2.
MIN_EXPECTED = 25
POWER = 0.95


class Fit(NamedTuple):
    """Counts against a law.

    Attributes:
        pvalue: of Pearson's chi-square; 0 if an outcome of probability 0 was seen.
        tv: total variation between the observed shares and the law.
        noise: what `tv` comes to on average if the law is right.
        detectable: a total variation that is caught with 95 % power, in whichever direction it points.
        forbidden: outcomes seen that have probability 0.
    """

    pvalue: float
    tv: float
    noise: float
    detectable: float
    forbidden: int


def fit(counts: NDArray[np.int64], law: NDArray[np.float64], level: float) -> Fit:
    """Test counts [K] against a law [K] at a level."""
    samples = int(counts.sum())
    expected = samples * law
    forbidden = int(counts[law == 0].sum())
    tv = float(np.abs(counts / samples - law).sum() / 2)
    noise = float(np.sqrt(2 * law * (1 - law) / (np.pi * samples)).sum() / 2)
    observed, expected, hidden = _pooled(counts[law > 0], expected[law > 0])
    freedom = len(expected) - 1
    statistic = float(((observed - expected) ** 2 / expected).sum())
    pvalue = float(chi2.sf(statistic, freedom)) if freedom else 1.0
    detectable = smallest_tv(samples, freedom, level) + hidden / samples
    return Fit(0.0 if forbidden else pvalue, tv, noise, detectable, forbidden)


@lru_cache(maxsize=256)
def smallest_tv(samples: int, freedom: int, level: float) -> float:
    """The total variation that the test catches with 95 % power.

    The power of Pearson's test grows with samples x sum (deviation²/law), which is at least
    samples x 4 tv² by Cauchy-Schwarz, with equality for deviations in proportion to the law. With one cell
    only, a deviation is an outcome of probability 0, and one such outcome is enough.
    """
    if freedom == 0:
        return float(-np.expm1(np.log(1 - POWER) / samples))
    critical = chi2.isf(level, freedom)
    needed = brentq(lambda shift: ncx2.sf(critical, freedom, shift) - POWER, 1e-9, 10 * critical + 100)
    return float(np.sqrt(needed / (4 * samples)))


def _pooled(
    observed: NDArray[np.int64], expected: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
    """Small cells made into one, and the expected count in which a deviation could hide."""
    order = np.argsort(expected)
    observed, expected = observed[order], expected[order]
    small = int((expected < MIN_EXPECTED).sum())
    if small == 0:
        return observed, expected, 0.0
    # Take in larger cells until the pool is large enough itself.
    while small < len(expected) and expected[:small].sum() < MIN_EXPECTED:
        small += 1
    pool = float(expected[:small].sum())
    return (
        np.concatenate([observed[:small].sum(keepdims=True), observed[small:]]),
        np.concatenate([[pool], expected[small:]]),
        pool,
    )
