"""What known faults would have meant for a panel, and which of them fits its draws best."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from specproof.audit.white.contexts import Context, Place
from specproof.audit.white.draws import Draws
from specproof.audit.white.emission import Floats
from specproof.audit.white.faults import Fault, distance
from specproof.audit.white.planner import ACTS, FAMILIES, Prediction, noncentrality

DRAFTS = "any fault of drafts"
# Of running text whose draft rows nobody knows.
UNSEEN = Prediction(DRAFTS, float("nan"), float("inf"), "none", float("inf"))


class Foresight(NamedTuple):
    """A family on a panel: what it takes to be seen, and how much likelier (as a logarithm) it makes the draws."""

    prediction: Prediction
    fit: float


def foresee(draws: Draws, level: float) -> list[Foresight]:
    """Every family that acts on the panel's contexts.

    G grows by the number of draws times the chi-square divergence of what comes out, which the test at this level
    has to tell from its degrees of freedom; `n95` counts draws of texts after all prefixes together.

    Args:
        draws: everything that came out.
        level: of the test of G.
    """
    counts = {place: draws.counted(place) for place in draws.prefixes.contexts}
    seen = {place: count for place, count in counts.items() if count.sum() > 0}
    texts = sum(map(len, draws.texts.values()))
    freedom = sum(len(count) - 1 for count in seen.values())
    if not seen or freedom == 0:
        return []
    needed = noncentrality(freedom, level)
    total = sum(int(count.sum()) for count in seen.values())
    found = []
    for fault in FAMILIES:
        tv = away = fit = 0.0
        for place, count in seen.items():
            context = draws.prefixes.contexts[place]
            out = _out(fault, draws, place, context)
            law = context.pooled(out)
            missing = 1 - law.sum()
            tv += count.sum() * float(distance(out[None], context.row[None])[0])
            away += count.sum() * float(((law - context.masses) ** 2 / context.masses).sum())
            # One draw without mass convicts: expecting three of them is as good as the whole shift.
            away += count.sum() * missing / 3 * needed
            with np.errstate(divide="ignore"):
                fit += float((count[count > 0] * np.log(law[count > 0] / context.masses[count > 0])).sum())
        tv /= total
        if tv > ACTS:
            n95 = texts * needed / away if away > 0 else float("inf")
            prediction = Prediction(fault.name, tv, n95, "panel", tv * float(np.sqrt(n95 / texts)))
            found.append(Foresight(prediction, fit))
    return found


def unnamed(draws: Draws, level: float) -> Prediction:
    """The smallest fault of drafts that a panel would have shown, where draft rows are not known.

    Whatever the law that comes out, its chi-square divergence from the row is at least 4 times the square of its
    total variation from it, in the cells that are counted.
    """
    counts = [draws.counted(place) for place in draws.prefixes.contexts]
    seen = [count for count in counts if count.sum() > 0]
    freedom = sum(len(count) - 1 for count in seen)
    if freedom == 0:
        return UNSEEN
    total = sum(int(count.sum()) for count in seen)
    smallest = float(np.sqrt(noncentrality(freedom, level) / (4 * total)))
    return Prediction(DRAFTS, smallest, float(sum(map(len, draws.texts.values()))), "panel", smallest)


def _out(fault: Fault, draws: Draws, place: Place, context: Context) -> Floats:
    """[V] what a fault gives out at a context, where some of the draws had a draft and others had none."""
    row = context.row[None]
    drafted = draws.drafted[place] / max(1, int(draws.counted(place).sum()))
    plain = fault.rows(row, np.zeros_like(row))[0]
    if place not in draws.drafts:
        return np.asarray(plain)
    share = min(1.0, drafted)
    return np.asarray(share * fault.rows(row, draws.drafts[place][None])[0] + (1 - share) * plain)
