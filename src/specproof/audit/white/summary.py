"""Everything that a run showed, put together for the verdict."""

from __future__ import annotations

from typing import Any, NamedTuple

from specproof.audit.white.draws import Draws, PanelResult
from specproof.audit.white.fit import best_fit
from specproof.audit.white.foresight import UNSEEN, Foresight, unnamed
from specproof.audit.white.picture import bars, tracks
from specproof.audit.white.plan import PANEL
from specproof.audit.white.planner import Planner, Prediction
from specproof.audit.white.side import Side
from specproof.audit.white.texts import Counts
from specproof.audit.white.verdict import Findings


class Panel(NamedTuple):
    """The panel of a run: its draws, what they came to, and without speculation after an alarm; known faults."""

    draws: Draws
    result: PanelResult
    control: PanelResult | None
    foreseen: list[Foresight]


class Sides(NamedTuple):
    """What was bet on without speculation and with it, and what known faults would have done to the latter."""

    control: Side
    speculative: Side
    planner: Planner


def summary(sides: Sides, panel: Panel | None, counts: Counts, tokenizer: Any) -> Findings:
    """What the verdict depends on; the tokenizer names tokens in pictures."""
    control, side = sides.control, sides.speculative
    tv, fault = _fit(sides, panel)
    return Findings(
        bets=side.arms(),
        control=control.arms(),
        ledger=side.ledger,
        drafted=counts.drafted,
        accepted=counts.accepted,
        texts=counts.texts,
        misended=counts.misended,
        tv=tv,
        fault=fault,
        predictions=_predictions(sides, panel, blind=counts.hidden > 0 or not counts.rows),
        greedy=side.greedy(),
        greedy_control=control.greedy(),
        notes=tuple(counts.notes),
        panel=panel.result if panel is not None else None,
        panel_control=panel.control if panel is not None else None,
        tracks=tracks(side.evidence) if not side.is_greedy else (),
        bars=bars(panel.draws, tokenizer) if panel is not None else (),
    )


def _fit(sides: Sides, panel: Panel | None) -> tuple[float | None, str]:
    """Size and name of the fault that fits best; nothing where no test convicts."""
    side, plan = sides.speculative, sides.speculative.plan
    if not side.is_greedy and side.arms().convicts(plan.barrier):
        return best_fit(side.evidence, sides.planner)
    if panel is None or not panel.result.convicts(plan.levels):
        return None, ""
    best = max(panel.foreseen, key=lambda each: each.fit, default=None)
    return panel.result.tv, best.prediction.fault if best is not None and best.fit > 0 else "no known fault"


def _predictions(sides: Sides, panel: Panel | None, *, blind: bool) -> tuple[Prediction, ...]:
    """Of each family, what bets or panel would have shown first: the smaller detectable fault.

    Bets are blind to faults of drafts where rows of drafts are not known; then all such faults are one family.
    """
    planner, plan = sides.planner, sides.speculative.plan
    if not planner.seen:
        return ()
    found = {prediction.fault: prediction for prediction in planner.predictions(sides.speculative.tokens)}
    for each in panel.foreseen if panel is not None else ():
        other = found.get(each.prediction.fault)
        if other is None or each.prediction.detectable < other.detectable:
            found[each.prediction.fault] = each.prediction
    if blind:
        drafts = UNSEEN if panel is None else unnamed(panel.draws, plan.levels[PANEL])
        found[drafts.fault] = drafts
    return tuple(found.values())
