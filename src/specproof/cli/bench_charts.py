"""The charts of a bench as inline SVG, each with its words; colours come from the page's style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from specproof.bench.figures import MEAN, Figures
from specproof.cli import svg

# Geometry in SVG units, which are pixels at full size.
WIDTH, LEFT, PLOT, ROW, BAR, TOP, GAP = 960, 220, 600, 22, 14, 22, 14
VALUE = 944
PANEL, HEIGHT, DEEPEST = 330, 120, 8
# A bar needs this many steps.
ENOUGH = 8


def speedups(key: str, found: Sequence[Figures], wrong: frozenset[str]) -> str:
    """One bar a kind and way, from 1 on: to the right faster, to the left slower than plain decoding."""
    shown = [one for one in found if one.speedup is not None]
    ends = [value for one in shown for value in (one.speedup_high, one.predicted_speedup, one.speedup) if value]
    most = max([1.5, *ends])
    scale = PLOT / most
    kinds = list(dict.fromkeys(one.kind for one in shown))
    # One kind alone is its own mean.
    kinds = [MEAN] if len(kinds) == 2 else kinds
    parts, y = [], float(TOP)
    for kind in kinds:
        rows = [one for one in shown if one.kind == kind]
        name = "all kinds" if kind == MEAN else kind
        middle = svg.number(y + len(rows) * ROW / 2 + 5)
        parts.append(f'<text class="target" x="0" y="{middle}">{svg.titled(svg.fit(name, 12), name)}</text>')
        for one in rows:
            parts.append(_speed(one, y, scale, one.way in wrong))
            y += ROW
        y += GAP
    axis = [_axis(x / 2, scale, y) for x in range(0, int(2 * most) + 1)]
    said = "; ".join(
        f"{one.kind}, {one.way}: {one.speedup:.2f}"
        + ("" if one.predicted_speedup is None else f", predicted {one.predicted_speedup:.2f}")
        for one in shown
    )
    return svg.figure(
        key, (WIDTH, y + 8), ("Speed-up over plain decoding by kind and drafter", said), [*axis, *parts]
    )


def _speed(one: Figures, top: float, scale: float, wrong: bool) -> str:
    assert one.speedup is not None
    y, start, end = top + (ROW - BAR) / 2, LEFT + scale, LEFT + one.speedup * scale
    bar = svg.rect("kept", start, y, end - start, BAR) + svg.rect("over", end, y, start - end, BAR)
    low, high = (LEFT + (value or one.speedup) * scale for value in (one.speedup_low, one.speedup_high))
    bar += svg.rect("span", low, y + BAR / 2 - 0.75, high - low, 1.5)
    if one.predicted_speedup is not None:
        bar += svg.rect("predicted", LEFT + one.predicted_speedup * scale - 1.5, y - 3, 3, BAR + 6)
    base, state = svg.number(y + 11.5), " off" if wrong or one.speedup < 1 else ""
    name = svg.titled(svg.fit(one.way, 16), one.way)
    said = "wrong text" if wrong else f"{one.speedup:.2f}x"
    return (
        f'<text class="row" x="{LEFT - 10}" y="{base}">{name}</text>{bar}'
        f'<text class="row{state}" x="{VALUE}" y="{base}">{said}</text>'
    )


def _axis(value: float, scale: float, height: float) -> str:
    x = svg.number(LEFT + value * scale)
    kind = "base" if value == 1 else "grid"
    return (
        f'<line class="{kind}" x1="{x}" x2="{x}" y1="{TOP - 4}" y2="{svg.number(height - GAP + 4)}"/>'
        f'<text class="label draft" x="{x}" y="{TOP - 10}">{value:g}x</text>'
    )


def acceptance(key: str, means: Sequence[Figures], kinds: Mapping[str, float]) -> str:
    """Bars by depth, one a temperature.

    Args:
        key: unique on the page.
        means: of one way, one a temperature.
        kinds: class of a bar → temperature.
    """
    by_temperature = {one.temperature: one for one in means}
    step = PANEL / DEEPEST
    width = (step - 8) / len(kinds)
    parts = [f'<line class="base" x1="0" x2="{PANEL}" y1="{HEIGHT + 16}" y2="{HEIGHT + 16}"/>']
    said = []
    for depth in range(1, DEEPEST + 1):
        left = (depth - 1) * step + 4
        parts.append(svg.label("draft", left + (step - 8) / 2, HEIGHT + 32, str(depth)))
        for i, (kind, temperature) in enumerate(kinds.items()):
            one = by_temperature[temperature]
            if one.drafted_at.get(depth, 0) < ENOUGH:
                continue
            share = one.acceptance_by_depth[depth]
            height = share * HEIGHT
            parts.append(svg.rect(kind, left + i * width, 16 + HEIGHT - height, width - 1, height))
            if width > 16:
                label = f"{100 * share:.0f}"
                parts.append(svg.label("draft", left + (i + 0.5) * width, 12 + HEIGHT - height, label))
            said.append(f"depth {depth}, temperature {temperature:g}: {share:.2f}")
    words = (f"Acceptance in per cent by depth: {means[0].way}", "; ".join(said) or "nothing was drafted")
    return svg.figure(key, (PANEL, HEIGHT + 40), words, parts)


def forwards(found: Mapping[int, float]) -> str:
    """A bar a width, with its milliseconds and how many narrow ones it costs."""
    narrow, most = found[min(found)], max(found.values())
    scale = (PLOT - 40) / most
    parts = []
    for i, (width, seconds) in enumerate(found.items()):
        y = 4 + i * ROW
        base = svg.number(y + 11.5)
        name = f"{width} token" if width == 1 else f"{width} tokens"
        parts.append(f'<text class="row" x="{LEFT - 10}" y="{base}">{name}</text>')
        parts.append(svg.rect("pale", LEFT, y, seconds * scale, BAR))
        text = f"{1000 * seconds:.1f} ms, {seconds / narrow:.2f} of one token's"
        parts.append(f'<text x="{svg.number(LEFT + seconds * scale + 8)}" y="{base}">{text}</text>')
    said = "; ".join(f"{width}: {1000 * seconds:.1f} ms" for width, seconds in found.items())
    size = (WIDTH, ceil(len(found) * ROW + 8))
    return svg.figure("forwards", size, ("Milliseconds of a forward by its tokens", said), parts)
