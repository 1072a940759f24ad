"""One prefix, many draws: does what was drawn follow the row? Tests whose false-alarm rate is exact.

The row is known, so the law of a statistic under the hypothesis can be drawn: (1 + larger ones) / (1 + draws) is
a p-value at any number of samples, where the chi-square table rejects up to twice too often at 1e-3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp, xlogy
from scipy.stats import chi2

from specproof.audit.white.emission import Floats, Integers
from specproof.errors import SpecproofError

FEWEST_EXPECTED = 5
TAIL_CELLS = 30
DRAWS = 9_999
# Of the statistic of several groups: at most so many are drawn, and so many larger ones end it.
MOST, ENOUGH = 99_999, 20
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


def g_statistic(observed: Floats | Integers, masses: Floats) -> Floats:
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
    live = masses > 0
    mean = logsumexp(dirichlet_terms(observed[..., live], masses[live]), axis=0) - np.log(len(CONCENTRATIONS))
    return np.where((observed[..., ~live] > 0).any(-1), np.inf, mean)


def dirichlet_terms(observed: Floats | Integers, masses: Floats) -> Floats:
    """[concentrations, ..] logarithm of each mixture's likelihood ratio, of counts [.., K]; all masses > 0."""
    total = observed.sum(-1)
    parts = []
    for concentration in CONCENTRATIONS:
        prior = concentration * masses
        ratio = (gammaln(prior + observed) - gammaln(prior) - observed * np.log(masses)).sum(-1)
        parts.append(gammaln(concentration) - gammaln(concentration + total) + ratio)
    return np.stack(parts)


class Group(NamedTuple):
    """Draws after one prefix or context, counted in cells that were chosen beforehand.

    Attributes:
        observed: [K] counts.
        masses: [K] of the cells; they sum to 1.
    """

    observed: Floats | Integers
    masses: Floats


def summed_g(groups: Sequence[Group]) -> float:
    """G of several groups together."""
    return sum(float(g_statistic(group.observed, group.masses)) for group in groups)


def tail_pvalue(groups: Sequence[Group], value: float, rng: np.random.Generator) -> float:
    """P-value of the summed G of groups whose sizes are given, by drawing them until enough are larger.

    Exact at any size: twenty larger ones end it, and then 20 / draws is a p-value as (1 + larger) / (1 + draws)
    is at the end (Besag and Clifford, Biometrika 1991).
    """
    sizes = [round(float(group.observed.sum())) for group in groups]
    larger = done = 0
    for several in (99, 900, *[9_000] * 11):
        drawn = np.zeros(several)
        for size, group in zip(sizes, groups, strict=True):
            if size > 0:
                drawn += g_statistic(rng.multinomial(size, group.masses, size=several), group.masses)
        hits = np.flatnonzero(drawn >= value * (1 - 1e-12))
        if larger + len(hits) >= ENOUGH:
            return ENOUGH / (done + int(hits[ENOUGH - larger - 1]) + 1)
        larger, done = larger + len(hits), done + several
    return (1 + larger) / (1 + done)


def fisher(pvalues: Sequence[float]) -> float:
    """One p-value of several, each of which is one whatever the earlier ones were; 0 if one is."""
    if not pvalues or min(pvalues) <= 0:
        return 0.0 if pvalues else 1.0
    return float(chi2.sf(-2 * np.log(pvalues).sum(), 2 * len(pvalues)))


def together(by_depth: Sequence[float]) -> float:
    """One p-value of those at all depths: the best of three times the first one, Fisher's, and the least by union.

    A fault of drafts need not show in first tokens, nor at more than one depth.
    """
    if len(by_depth) < 2:
        return min(1.0, *by_depth, 1.0)
    return min(1.0, 3 * min(by_depth[0], fisher(by_depth), len(by_depth) * min(by_depth)))


def eased(groups: Sequence[Group], moves: int) -> list[Group]:
    """The groups after the `moves` draws that lower G most went elsewhere in theirs.

    Draws from a law within total variation delta of the masses are draws from the masses, but for a number that
    is binomial with chance delta at most. If that number is no more than `moves`, then G of what is left here is
    no more than G of draws from the masses. G is separable and convex, so the best move after the best is best.
    """
    found = [Group(np.array(group.observed, dtype=np.float64), group.masses) for group in groups]
    best = [_best_move(group) for group in found]
    for _ in range(moves if found else 0):
        at = max(range(len(found)), key=lambda i: best[i][0])
        gain, out, into = best[at]
        if gain <= 0:
            break
        found[at].observed[out] -= 1
        found[at].observed[into] += 1
        best[at] = _best_move(found[at])
    return found


def _best_move(group: Group) -> tuple[float, int, int]:
    """How much G falls if one draw goes from a cell to another; and these."""
    observed = np.asarray(group.observed, dtype=np.float64)
    expected = observed.sum() * group.masses

    def part(counts: Floats) -> Floats:
        return np.asarray(2 * (xlogy(counts, counts) - xlogy(counts, expected)))

    now = part(observed)
    less = np.where(observed >= 1, now - part(np.maximum(observed - 1, 0)), -np.inf)
    more = part(observed + 1) - now
    out, into = int(less.argmax()), int(more.argmin())
    return float(less[out] - more[into]) if len(observed) > 1 and observed.sum() > 0 else 0.0, out, into
