"""What known faults would have meant for a panel, and which of them fits its draws best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2

from specproof.audit.white.contexts import Context, Place
from specproof.audit.white.draws import Draws
from specproof.audit.white.emission import Floats, Integers
from specproof.audit.white.faults import Fault, distance
from specproof.audit.white.panel import MOST
from specproof.audit.white.plan import PANEL
from specproof.audit.white.planner import ACTS, FAMILIES, NOTHING, POWER, Prediction

DRAFTS = "any fault of drafts, in the panel's cells"
# Of running text whose draft rows nobody knows.
UNSEEN = Prediction("any fault of drafts", float("nan"), float("inf"), NOTHING, float("inf"))


# Simulated panels for a statement of power.
_SIMULATED = 4_000


class Foresight(NamedTuple):
    """A family on a panel: what it takes to be seen, and how much likelier (as a logarithm) it makes the draws."""

    prediction: Prediction
    fit: float


def foresee(draws: Draws, level: float) -> list[Foresight]:
    """Every family that acts on the panel's contexts; `n95` counts draws of texts after all prefixes together.

    Args:
        draws: everything that came out.
        level: of the test of G.
    """
    seen = _seen(draws)
    texts = sum(map(len, draws.texts.values()))
    total = sum(int(count.sum()) for count in seen.values())
    freedom = _by_depth({place: len(count) - 1 for place, count in seen.items()})
    found = []
    for fault in FAMILIES if freedom.sum() else ():
        tv = missing = fit = 0.0
        away = {}
        for place, count in seen.items():
            context = draws.prefixes.contexts[place]
            out = _out(fault, draws, place, context)
            law = context.pooled(out)
            tv += count.sum() * float(distance(out[None], context.row[None])[0])
            away[place] = count.sum() * float(((law - context.masses) ** 2 / context.masses).sum())
            missing += count.sum() * (1 - law.sum())
            with np.errstate(divide="ignore"):
                fit += float((count[count > 0] * np.log(law[count > 0] / context.masses[count > 0])).sum())
        tv /= total
        if tv > ACTS:
            # One draw without mass convicts: three of them are expected to leave none with 5 %.
            scale = min(_scale(freedom, _by_depth(away), level), 3 / missing if missing > 0 else float("inf"))
            prediction = Prediction(fault.name, tv, texts * scale, PANEL, tv * float(np.sqrt(scale)))
            found.append(Foresight(prediction, fit))
    return found


def unnamed(draws: Draws, level: float) -> Prediction:
    """The smallest fault of drafts that a panel would have shown, where draft rows are not known.

    Whatever the law that comes out, its chi-square divergence from the row is at least 4 times the square of its
    total variation from it, in the cells that are counted. First tokens do not count: many engines draw them
    from the prompt's own pass, without a draft.
    """
    seen = _seen(draws)
    freedom = _by_depth({place: len(count) - 1 for place, count in seen.items()})
    drafted = _by_depth({place: float(count.sum()) if place.path else 0.0 for place, count in seen.items()})
    if not draws.exercised or not freedom.sum() or not drafted.sum():
        return UNSEEN
    smallest = float(np.sqrt(_scale(freedom, 4 * drafted, level)))
    return Prediction(DRAFTS, smallest, float(sum(map(len, draws.texts.values()))), PANEL, smallest)


def _seen(draws: Draws) -> dict[Place, Integers]:
    """[K] counts in the cells of every context that draws came to."""
    counts = {place: draws.counted(place) for place in draws.prefixes.contexts}
    return {place: count for place, count in counts.items() if count.sum() > 0}


def _by_depth(values: Mapping[Place, float]) -> Floats:
    """[depths] sums over the contexts of each depth."""
    found = np.zeros(1 + max((len(place.path) for place in values), default=0))
    for place, value in values.items():
        found[len(place.path)] += value
    return found


def _scale(freedom: Floats, away: Floats, level: float) -> float:
    """By how much shifts of G, [depths] by their degrees of freedom, must grow to be seen with 95 % power.

    The panel's p-value (`panel.together`) is simulated, with the same numbers for every scale.
    """
    tested = freedom > 0
    freedom, away, count = freedom[tested], away[tested], int(tested.sum())
    rng = np.random.default_rng(0)
    shifted, rest = rng.normal(size=(_SIMULATED, len(freedom))), np.zeros((_SIMULATED, len(freedom)))
    rest[:, freedom > 1] = rng.chisquare(freedom[freedom > 1] - 1, size=(_SIMULATED, int((freedom > 1).sum())))

    def short(log_scale: float) -> float:
        # Simulated p-values cannot be smaller.
        pvalues = np.maximum(chi2.sf((shifted + np.sqrt(np.exp(log_scale) * away)) ** 2 + rest, freedom), 1 / MOST)
        whole = chi2.sf(-2 * np.log(pvalues).sum(1), 2 * count)
        best = np.minimum(np.minimum(pvalues[:, 0], whole), count * pvalues.min(1))
        return POWER - float(((3 if count > 1 else 1) * best <= level).mean())

    least, most = np.log(1e-6), np.log(1e9)
    return float(np.exp(brentq(short, least, most, xtol=1e-3))) if short(most) < 0 else float("inf")


def _out(fault: Fault, draws: Draws, place: Place, context: Context) -> Floats:
    """[V] what a fault gives out at a context, where some of the draws had a draft and others had none."""
    row = context.row[None]
    drafted = draws.drafted[place] / max(1, int(draws.counted(place).sum()))
    plain = fault.rows(row, np.zeros_like(row))[0]
    if place not in draws.drafts:
        return np.asarray(plain)
    share = min(1.0, drafted)
    return np.asarray(share * fault.rows(row, draws.drafts[place][None])[0] + (1 - share) * plain)
