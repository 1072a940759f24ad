"""One prefix, many draws: does what was drawn follow the row? Tests whose false-alarm rate is exact.

The row is known, so the law of a statistic under the hypothesis can be drawn: (1 + larger ones) / (1 + draws) is
a p-value at any number of samples, where the chi-square table rejects up to twice too often at 1e-3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp, xlogy

from specproof.audit.white.emission import Floats, Integers
from specproof.errors import SpecproofError

FEWEST_EXPECTED = 5
TAIL_CELLS = 30
DRAWS = 9_999
CONCENTRATIONS = (10.0, 100.0, 1_000.0, 10_000.0, 100_000.0)


class Repeated(NamedTuple):
    """Counts against a row.

    Attributes:
        samples, cells: how many draws, and cells they were counted in.
        g, pearson: the two statistics.
        g_pvalue, pearson_pvalue: by Monte Carlo; 0 if a token without mass came out.
        tv: between observed shares and row, over the cells.
        forbidden: draws of tokens without mass.
    """

    samples: int
    cells: int
    g: float
    pearson: float
    g_pvalue: float
    pearson_pvalue: float
    tv: float
    forbidden: int


def cells(row: Floats, samples: int) -> Integers:
    """[V] the cell of each token of a row [V], chosen before anything is drawn; -1 without mass.

    Tokens that expect five draws or more are cells of their own. The others share at most 30 cells of about
    equal mass; a last one that expects fewer than five goes to its neighbour.
    """
    order = np.argsort(-row, kind="stable")
    expected = samples * row[order]
    alone = int((expected >= FEWEST_EXPECTED).sum())
    owner = np.full(len(row), -1, dtype=np.int64)
    owner[order[:alone]] = np.arange(alone)
    rest = order[alone:][row[order[alone:]] > 0]
    mass = samples * row[rest].sum()
    several = int(min(TAIL_CELLS, mass // (2 * FEWEST_EXPECTED)))
    if several > 1:
        before = samples * (row[rest].cumsum() - row[rest])
        owner[rest] = alone + np.minimum((before * several / mass).astype(np.int64), several - 1)
    else:
        owner[rest] = alone if mass >= FEWEST_EXPECTED or alone == 0 else alone - 1
    return owner


def pooled(counts: Integers, row: Floats) -> tuple[Integers, Floats]:
    """Counts and masses by cell."""
    owner = cells(row, int(counts.sum()))
    inside = owner >= 0
    number = int(owner.max()) + 1
    observed = np.bincount(owner[inside], counts[inside], number).astype(np.int64)
    return observed, np.bincount(owner[inside], row[inside], number).astype(np.float64)


def repeated_test(counts: Integers, row: Floats, *, draws: int = DRAWS, seed: int = 0) -> Repeated:
    """Test counts [V] against a row [V].

    Args:
        counts: how often each token came out after one prefix.
        row: the law that they should have.
        draws: of the statistics under the hypothesis.
        seed: of these draws.

    Raises:
        SpecproofError: no counts, or too few draws for a small p-value.
    """
    samples = int(counts.sum())
    if samples < 1 or draws < DRAWS:
        raise SpecproofError(f"{samples} samples and draws={draws}: give at least one sample and {DRAWS} draws")
    forbidden = int(counts[row <= 0].sum())
    observed, masses = pooled(counts, row)
    masses = masses / masses.sum()
    inside = int(observed.sum())
    simulated = np.random.default_rng(seed).multinomial(inside, masses, size=draws)
    found = []
    for statistic in (g_statistic, pearson_statistic):
        value = float(statistic(observed[None], masses)[0])
        # Equal values count as larger; rounding must not make them smaller.
        larger = int((statistic(simulated, masses) >= value * (1 - 1e-12)).sum())
        found.append((value, 0.0 if forbidden else (1 + larger) / (1 + draws)))
    (g, g_pvalue), (pearson, pearson_pvalue) = found
    tv = float(np.abs(observed / samples - masses).sum() + forbidden / samples) / 2
    return Repeated(samples, len(masses), g, pearson, g_pvalue, pearson_pvalue, tv, forbidden)


def g_statistic(observed: Integers, masses: Floats) -> Floats:
    """[..] 2 x sum of O ln(O / E), of counts [.., K]."""
    expected = observed.sum(-1, keepdims=True) * masses
    return np.asarray(2 * (xlogy(observed, observed) - xlogy(observed, expected)).sum(-1))


def pearson_statistic(observed: Integers, masses: Floats) -> Floats:
    """[..] sum of (O - E)^2 / E, of counts [.., K]."""
    expected = observed.sum(-1, keepdims=True) * masses
    return np.asarray(((observed - expected) ** 2 / expected).sum(-1))


def dirichlet_log_e(observed: Integers, masses: Floats) -> Floats:
    """[..] logarithm of an e-value that may be looked at after every draw, of counts [.., K] in fixed cells.

    The likelihood ratio of Dirichlet mixtures around the row, from loose to tight, against the row itself. The
    cells must not depend on the counts. Infinite where a cell without mass was hit.
    """
    total = observed.sum(-1)
    live = masses > 0
    seen = observed[..., live]
    parts = []
    for concentration in CONCENTRATIONS:
        prior = concentration * masses[live]
        ratio = (gammaln(prior + seen) - gammaln(prior) - seen * np.log(masses[live])).sum(-1)
        parts.append(gammaln(concentration) - gammaln(concentration + total) + ratio)
    mean = logsumexp(np.stack(parts), axis=0) - np.log(len(CONCENTRATIONS))
    return np.where((observed[..., ~live] > 0).any(-1), np.inf, mean)
