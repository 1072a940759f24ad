"""What the figures mean, in words: speculate here, with whom, or don't."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specproof.bench.figures import MEAN, Figures
from specproof.bench.ways import BASE
from specproof.engine.history import Habits

# Speculation has to promise this much more than plain decoding.
MARGIN = Habits.margin


@dataclass(frozen=True)
class Sentence:
    """Advice for one temperature and one kind of prompts, or all of them.

    Attributes:
        temperature, kind: what it is about.
        way: who should draft; "none" where nobody should.
        text: why.
    """

    temperature: float
    kind: str
    way: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def advise(found: Sequence[Figures], wrong: frozenset[str] = frozenset()) -> list[Sentence]:
    """Advice for every temperature and kind, the mean first.

    Args:
        found: figures of all ways, temperatures and kinds.
        wrong: ways that wrote a wrong text; they are advised against, however fast.
    """
    places = dict.fromkeys((one.temperature, one.kind) for one in found)
    sentences = []
    for temperature in dict.fromkeys(temperature for temperature, _ in places):
        kinds = [kind for at, kind in places if at == temperature]
        # One kind alone is its own mean.
        kinds = [MEAN, *(kind for kind in kinds if kind != MEAN)] if len(kinds) > 2 else [MEAN]
        for kind in kinds:
            here = [one for one in found if (one.temperature, one.kind) == (temperature, kind)]
            sentences.append(_for(temperature, kind, here, wrong))
    return sentences


def credible(one: Figures) -> float:
    """Speed-up as far as it can be true: bounded by tokens per forward, as no forward is faster for being wide."""
    return min(one.speedup or 0.0, one.tokens_per_forward)


def _for(temperature: float, kind: str, found: Sequence[Figures], wrong: frozenset[str]) -> Sentence:
    drafting = [one for one in found if one.way not in wrong | {BASE} and one.speedup is not None]
    if not drafting:
        return Sentence(temperature, kind, BASE, "nothing to advise: no drafter wrote a right text of any length.")
    best = max(drafting, key=credible)
    assert best.speedup is not None
    assert best.speedup_low is not None
    if credible(best) < MARGIN:
        noise = "" if best.speedup < MARGIN else "; more than its tokens per forward is the noise of this run"
        text = f"don't speculate here: the best is {best.way} with {_gain(best)}{noise}. {reason(best)}."
        return Sentence(temperature, kind, BASE, text + _longer(best))
    if best.speedup_low < 1:
        doubt = "which this run cannot tell from no gain; repeat it more often"
        return Sentence(
            temperature,
            kind,
            BASE,
            f"no reason to speculate here: the best is {best.way} with {_gain(best)}, {doubt}.",
        )
    return Sentence(temperature, kind, best.way, f"speculate with {best.way}: {_gain(best)}.{_longer(best)}")


def reason(one: Figures) -> str:
    """What keeps a way from gaining: nothing to draft, too little accepted, or drafts that cost too much."""
    if 1 not in one.drafted_at:
        return "It found nothing to draft"
    first, needed = _percent(one.acceptance_by_depth[1]), one.break_even
    said = f"It drafts in {_percent(one.drafting)} of the steps; of first tokens {first} are accepted"
    if needed is None or needed <= 0:
        return said
    if needed >= 1:
        return f"{said}, and drafting one costs more than it can ever gain"
    return f"{said}, and one pays from {_percent(needed)} on"


def _gain(one: Figures) -> str:
    span = f"{one.speedup_low:.2f}–{one.speedup_high:.2f}"
    return f"{one.speedup:.2f}x ({span}), {one.tokens_per_forward:.2f} tokens per forward"


def _longer(one: Figures) -> str:
    """What the cost model would change."""
    if (
        one.best is None
        or one.speedup is None
        or one.best.length == 0
        or one.best.speedup < MARGIN * max(one.speedup, 1)
    ):
        return ""
    return f" The cost model promises {one.best.speedup:.2f}x for drafts of {one.best.length} in every step."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
