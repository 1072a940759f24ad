"""What two arms would have shown of each known fault, and which fault fits what they showed.

Only faults that need no draft can be spoken of by name from outside. For all others there is one figure: the
total variation, after every past that was seen often enough, that the test catches in whichever direction it
points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from specproof.audit.endpoint.permuted import Prompt
from specproof.audit.endpoint.units import Place
from specproof.audit.white.emission import Floats, quotient
from specproof.audit.white.faults import Fault
from specproof.audit.white.planner import FAMILIES, Prediction, noncentrality

ANY = "any difference"
ONE_SEED = "the same text again and again, as if many requests had one seed"
GREEDY = "always the likeliest"
KNOWN: tuple[Fault, ...] = (
    *(fault for fault in FAMILIES if not fault.needs_draft),
    Fault(GREEDY, lambda target, draft: np.eye(target.shape[1])[target.argmax(1)], needs_draft=False),
)
SHARES = (1.0, 0.3, 0.1)
# A fault is named if it explains this much of what speaks against equal laws; the rest may be chance.
_EXPLAINS = 0.5


class _Counted(NamedTuple):
    """A place: rows of both arms in counts, and in shares of both together, likeliest first."""

    place: Place
    on: Floats
    off: Floats

    @property
    def row(self) -> Floats:
        """[kinds] shares of both arms together."""
        both = self.on + self.off
        return np.asarray(both / both.sum())

    @property
    def texts(self) -> float:
        """Texts an arm that tell as much as those there are of both: half their harmonic mean."""
        on, off = self.on.sum(), self.off.sum()
        return float(on * off / (on + off))


def _counted(prompts: Sequence[Prompt]) -> list[_Counted]:
    found = []
    for prompt in prompts:
        speculative = prompt.labels > 0
        for place in prompt.places:
            on = np.bincount(place.next[speculative[place.texts]], minlength=place.kinds).astype(np.float64)
            found.append(_Counted(place, on, place.counts - on))
    return found


def predictions(prompts: Sequence[Prompt], level: float, draws: int) -> tuple[Prediction, ...]:
    """What any difference, and each fault that needs no draft, would have meant for the test.

    Args:
        prompts: tables of the texts.
        level: of the test.
        draws: texts of an arm after each prompt.
    """
    counted = [each for each in _counted(prompts) if each.on.sum() and each.off.sum()]
    freedom = sum(prompt.freedom for prompt in prompts)
    if not counted or freedom < 1:
        return ()
    shift = noncentrality(freedom, level)
    texts = sum(each.texts for each in counted)
    smallest = float(np.sqrt(shift / (4 * texts)))
    found = [Prediction(ANY, smallest, float(draws), "permutations", smallest)]
    for fault in KNOWN:
        away, tv = 0.0, 0.0
        for each in counted:
            cells = each.place.cells()
            row = np.bincount(cells, each.row).astype(np.float64)
            out = np.bincount(cells, _out(fault, each.row)).astype(np.float64)
            away += each.texts * float(quotient(2 * (out - row) ** 2, out + row).sum())
            tv += each.texts * float(np.abs(out - row).sum()) / 2
        if tv > 1e-4 * texts:
            scale = float(np.sqrt(shift / away))
            found.append(Prediction(fault.name, tv / texts, draws * scale**2, "permutations", tv / texts * scale))
    return tuple(found)


def named(prompts: Sequence[Prompt]) -> tuple[str, float | None]:
    """The fault that fits best what came with speculation, and its mean total variation; None if none fits."""
    counted = [each for each in _counted(prompts) if each.on.sum() and each.off.sum()]
    laws = [((each.off + 0.5) / (each.off + 0.5).sum(), each) for each in counted]
    best = sum(float((each.on * np.log(quotient(each.on, row) + (each.on == 0))).sum()) for row, each in laws)
    best -= sum(float(each.on.sum() * np.log(each.on.sum())) for each in counted)
    # A law that is fitted freely gains as much by chance, half by each arm's.
    best -= sum(prompt.freedom for prompt in prompts)
    found = []
    for fault in KNOWN:
        for share in SHARES:
            gain, tv, weight = 0.0, 0.0, 0.0
            for row, each in laws:
                out = (1 - share) * row + share * _out(fault, row)
                # What the fault rules out came in spite of it: a few stray counts must not decide alone.
                gain += float((each.on * np.log(np.maximum(out, 1e-4 * row) / row)).sum())
                tv += float(each.on.sum() * np.abs(out - row).sum()) / 2
                weight += float(each.on.sum())
            words = fault.name + ("" if share == 1 else f", at a share of {share:g}")
            found.append((gain, words, tv / max(1.0, weight)))
    gain, words, tv = max(found)
    return (words, tv) if gain > _EXPLAINS * best > 0 else ("no known fault", None)


def _out(fault: Fault, row: Floats) -> Floats:
    rows = row[None]
    return np.asarray(fault.rows(rows, np.zeros_like(rows))[0])
