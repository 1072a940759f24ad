"""Settings for the statistical audit: engines over tables, and a synthetic world of contexts."""

from functools import lru_cache

import numpy as np
import torch
from scipy.stats import binom

from specproof.audit.white.emission import Emissions
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine

FALSE_ALARM = 1e-4


@lru_cache(maxsize=8)
def tables(vocabulary=12, seed=0, spread=0.7):
    """A target with context, and a draft that is off by log-normal factors: acceptance is near 3/4 a token."""
    generator = torch.Generator().manual_seed(seed)
    target = TableModel.random(vocabulary, 1, generator)
    levels = []
    for level in target.levels:
        other = level * (spread * torch.randn(level.shape, generator=generator, dtype=torch.float64)).exp()
        levels.append(other / other.sum(-1, keepdim=True))
    return target, TableModel(tuple(levels))


def table_engine(nodes=3, rule="rejection", **options):
    """An engine over the tables, with production's noise."""
    target, draft = tables(**options)
    return Engine(
        TableBackend(target), ModelDrafter(TableBackend(draft), nodes), rule, max_batch=64, adaptive=False
    )


def scores(model):
    """The reference of a table."""
    return lambda tokens, first: torch.stack([model.row(tokens[:at]) for at in range(first, len(tokens))]).log()


def world(contexts=64, vocabulary=50, seed=0):
    """Rows of Zipf laws with exponents 0.7 to 2, and draft rows off by log-normal factors."""
    rng = np.random.default_rng(seed)
    exponents = rng.uniform(0.7, 2, contexts)
    target = np.arange(1, vocabulary + 1)[None] ** -exponents[:, None]
    target = rng.permuted(target, axis=1)
    target /= target.sum(1, keepdims=True)
    draft = target * np.exp(0.7 * rng.normal(size=target.shape))
    return target, draft / draft.sum(1, keepdims=True)


def emitted(target, draft, count, rng, fault=None):
    """Emissions at random contexts of a world, by the target's law or a fault's."""
    context = rng.integers(len(target), size=count)
    rows, drafts = target[context], draft[context]
    out = rows if fault is None else fault.rows(rows, drafts)
    edges = out.cumsum(1)
    tokens = (rng.random(count)[:, None] * edges[:, -1:] >= edges).sum(1)
    strata = rng.integers(6, size=count)
    return Emissions(tokens, rows, drafts, rng.random(count), strata, np.arange(count) > 0)


def too_many(runs, rate, tests=1):
    """Smallest count of alarms that at most one in 10,000 such batteries of correct tests reaches by chance."""
    return int(binom.isf(FALSE_ALARM / tests, runs, rate)) + 1
