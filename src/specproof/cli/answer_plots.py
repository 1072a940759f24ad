"""Plots of an audit's answer as inline SVG: capital over tokens, and shares after a prefix against its row."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from itertools import pairwise

from specproof.audit.answer import Answer, Bars, Track
from specproof.cli import svg

# Geometry in SVG units, which are pixels at full size. Names of the tracks stand at the right.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960, 330, 64, 190, 14, 34
ROW, BAR, NAMES, PLOT, FIGURES = 24, 13, 128, 250, 46
LEAST_APART = 16
Scales = tuple[Callable[[float], float], Callable[[float], float]]


def capital(answer: Answer) -> str:
    """Logarithm to base 10 of the capital of each track; the line where it convicts."""
    tracks = [track for track in answer.tracks if track.at]
    barrier = answer.barrier / math.log(10)
    values = [value / math.log(10) for track in tracks for value in track.log_e if math.isfinite(value)]
    top, low = max([barrier * 1.25, *values]) + 0.3, max(min([0.0, *values]), -8.0) - 0.3
    last = max(max(track.at) for track in tracks)

    def x(tokens: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * tokens / max(1, last)

    def y(value: float) -> float:
        inside = min(max(value, low), top)
        return TOP + (HEIGHT - TOP - BOTTOM) * (top - inside) / (top - low)

    parts = _grid(low, top, last, (x, y))
    if answer.barrier:
        parts.append(
            f'<line class="best" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{n(y(barrier))}" y2="{n(y(barrier))}"/>'
        )
        parts.append(f'<text class="best left" x="{LEFT + 8}" y="{n(y(barrier) - 6)}">convicts</text>')
    ends = _apart([y(track.log_e[-1] / math.log(10)) for track in tracks])
    for number in reversed(range(len(tracks))):
        parts.append(_track(tracks[number], number, ends[number], (x, y)))
    said = "; ".join(
        f"{track.name}: {track.log_e[-1] / math.log(10):.1f} after {track.at[-1]}" for track in tracks
    )
    words = ("Capital over tokens, logarithm to base 10", f"{said}. It convicts at {barrier:.1f}.")
    return svg.figure("capital", (WIDTH, HEIGHT), words, parts)


def n(value: float) -> str:
    """A coordinate."""
    return svg.number(value)


def _grid(low: float, top: float, last: int, scales: Scales) -> list[str]:
    x, y = scales
    parts = []
    step = max(1, round((top - low) / 6))
    for power in range(math.ceil(low), math.floor(top) + 1):
        if power % step == 0:
            kind = "grid base" if power == 0 else "grid"
            parts.append(
                f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{n(y(power))}" y2="{n(y(power))}"/>'
            )
            name = "1" if power == 0 else f'10<tspan dy="-5" font-size="10">{str(power).replace("-", "−")}</tspan>'
            parts.append(f'<text class="tick" x="{LEFT - 8}" y="{n(y(power) + 4)}">{name}</text>')
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        tokens = round(last * share)
        parts.append(f'<text class="label draft" x="{n(x(tokens))}" y="{HEIGHT - 10}">{tokens:,}</text>')
    return parts


def _track(track: Track, number: int, end: float, scales: Scales) -> str:
    x, y = scales
    points = " ".join(
        f"{n(x(at))},{n(y(value / math.log(10)))}" for at, value in zip(track.at, track.log_e, strict=True)
    )
    kind = f"track t{min(number, 9)}"
    return (
        f'<polyline class="{kind}" points="{points}"/>'
        f'<text class="{kind} left" x="{WIDTH - RIGHT + 10}" y="{n(end + 4)}">{escape(track.name)}</text>'
    )


def _apart(places: list[float]) -> list[float]:
    """Places of names, moved so that none covers another and none leaves the plot."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(places)
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + LEAST_APART)
    over = max(0.0, max(moved, default=0.0) - (HEIGHT - BOTTOM))
    if over:
        limit: float = HEIGHT - BOTTOM
        for at in reversed(order):
            moved[at] = min(moved[at], limit)
            limit = moved[at] - LEAST_APART
    return moved


def panel(key: int, bars: Bars) -> str:
    """Shares as bars, probabilities as outlines, and the spread that chance gives a share."""
    width, height = NAMES + PLOT + FIGURES, 6 + ROW * len(bars.names)
    spreads = [math.sqrt(target * (1 - target) / max(1, bars.samples)) for target in bars.target]
    ends = [target + spread for target, spread in zip(bars.target, spreads, strict=True)]
    scale = PLOT / max([*ends, *bars.observed, 1e-9]) / 1.03
    parts = []
    for i, (name, target, observed) in enumerate(zip(bars.names, bars.target, bars.observed, strict=True)):
        top = 4 + i * ROW
        spread = spreads[i]
        middle = n(top + BAR / 2 + 2)
        low, high = n(NAMES + max(0.0, target - spread) * scale), n(NAMES + (target + spread) * scale)
        shown = svg.fit(name or "(nothing)", 15)
        parts.append(
            f'<text class="row" x="{NAMES - 8}" y="{n(top + 13)}">{svg.titled(shown, name)}</text>'
            + svg.rect("kept", NAMES, top + 2, observed * scale, BAR)
            + svg.rect("outline", NAMES, top + 2, target * scale, BAR)
            + f'<line class="spread" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>'
            f'<text class="tick" x="{width - 2}" y="{n(top + 13)}">{observed:.3f}</text>'
        )
    said = "; ".join(
        f"{a}: {o:.3f} of {t:.3f}" for a, t, o in zip(bars.names, bars.target, bars.observed, strict=True)
    )
    return svg.figure(f"panel{key}", (width, height), (f"{bars.samples} draws", said), parts)
