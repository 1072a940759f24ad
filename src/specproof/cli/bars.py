"""The bars of a worked example as inline SVG, each figure with its words; colours come from the page's style."""

from __future__ import annotations

from fractions import Fraction
from itertools import count, pairwise
from math import ceil

from rich.cells import cell_len

from specproof.audit.worked import Mistake, WorkedExample
from specproof.cli import svg
from specproof.cli.digits import exact, short
from specproof.cli.svg import MOST_WIDE

# Geometry in SVG units, which are pixels at full size.
PLOT_HEIGHT, TOP, BOTTOM, LEFT = 300, 34, 40, 48
GROUP = 104
ROW, BAR, SIDE, MOST_NAME, VALUE = 30, 18, 296, 96, 62
# Width of a character on average: names below the bars are larger than names beside them.
BELOW, BESIDE, DIGIT = 8.8, 7.2, 8


def stacked(example: WorkedExample) -> str:
    """One group a token: the draft's bar, and beside it kept + redrawn inside the target's outline."""
    count = len(example.names)
    width = max(MOST_WIDE, LEFT + count * GROUP)
    step = (width - LEFT) / count
    highest = max(*example.target, *example.draft)
    top = ceil(highest / _step(highest)) * _step(highest)
    parts = [_grid(top, width)]
    for i, name in enumerate(example.names):
        parts.append(_group(example, i, (LEFT + i * step, step), top))
        label = svg.fit(name, (step - 8) / BELOW)
        middle = LEFT + (i + 0.5) * step
        below = f'y="{TOP + PLOT_HEIGHT + 24}">{svg.titled(label, name)}</text>'
        parts.append(f'<text class="name" x="{svg.number(middle)}" {below}')
    said = "; ".join(
        f"{name}: draft {exact(example.draft[i])}, target {exact(example.target[i])} = kept "
        f"{exact(example.accepted[i])} + redrawn {exact(example.redrawn[i])}"
        for i, name in enumerate(example.names)
    )
    title = "Kept and redrawn probability fill the target of every token"
    return svg.figure("stacked", (width, TOP + PLOT_HEIGHT + BOTTOM), (title, said), parts)


def sideways(example: WorkedExample, mistake: Mistake, title: str) -> str:
    """The law that a mistake gives, one bar a token, against the target's outline."""
    longest = max(*(law for m in example.mistakes for law in m.law), *example.target)
    start = min(MOST_NAME, max(cell_len(name) for name in example.names) * BESIDE + 10)
    scale = (SIDE - start - VALUE) / float(longest)
    parts = []
    for i, name in enumerate(example.names):
        y = i * ROW + (ROW - BAR) / 2
        law, goal = mistake.law[i], example.target[i]
        both, end, edge = (start + float(mass) * scale for mass in (min(law, goal), law, goal))
        label = svg.titled(svg.fit(name, (start - 10) / BESIDE), name)
        parts.append(f'<text class="row" x="{svg.number(start - 8)}" y="{svg.number(y + 13)}">{label}</text>')
        parts.append(svg.rect("right", start, y, both - start, BAR))
        parts.append(svg.rect("over", both, y, end - both, BAR))
        parts.append(svg.rect("short", both, y, edge - both, BAR))
        parts.append(svg.rect("outline", start, y, edge - start, BAR))
        state = "" if law == goal else " off"
        x = max(end, edge) + 7
        parts.append(
            f'<text class="value{state}" x="{svg.number(x)}" y="{svg.number(y + 13)}">{short(law)}</text>'
        )
    said = "; ".join(
        f"{name}: {exact(mistake.law[i])} instead of {exact(example.target[i])}"
        if mistake.law[i] != example.target[i]
        else f"{name}: {exact(mistake.law[i])}, as it should be"
        for i, name in enumerate(example.names)
    )
    said = f"{said}. Total variation {exact(mistake.tv)}."
    return svg.figure(mistake.name, (SIDE, len(example.names) * ROW), (title, said), parts)


def _group(example: WorkedExample, i: int, place: tuple[float, float], top: Fraction) -> str:
    """Both bars of token i, in the `place` (left edge, width) of its group."""
    left, step = place
    draft_width, target_width, gap = (
        min(step * share, most) for share, most in ((0.28, 60), (0.44, 90), (0.06, 14))
    )
    x = left + (step - draft_width - gap - target_width) / 2
    kept, goal, drafted = _y(example.accepted[i], top), _y(example.target[i], top), _y(example.draft[i], top)
    base = _y(Fraction(0), top)
    second, label = x + draft_width + gap, short(example.draft[i])
    # A label wider than its bar moves left, away from the target's.
    label_x = min(x + draft_width / 2, second - 1 - len(label) * DIGIT / 2)
    return "".join(
        (
            svg.rect("kept pale", x, kept, draft_width, base - kept),
            svg.rect("rejected", x, drafted, draft_width, kept - drafted),
            svg.label("draft", label_x, drafted - 7, label),
            svg.rect("kept", second, kept, target_width, base - kept),
            _inside("on-kept", (second, target_width), (kept, base), example.accepted[i]),
            svg.rect("redrawn", second, goal, target_width, kept - goal),
            _inside("on-redrawn", (second, target_width), (goal, kept), example.redrawn[i]),
            svg.rect("outline", second, goal, target_width, base - goal),
            svg.label("target", second + target_width / 2, goal - 7, short(example.target[i])),
        )
    )


def _grid(top: Fraction, width: float) -> str:
    lines, step = [], _step(top)
    for number in range(int(top / step) + 1):
        y, kind = svg.number(_y(number * step, top)), "grid" if number else "grid base"
        lines.append(f'<line class="{kind}" x1="{LEFT}" x2="{svg.number(width)}" y1="{y}" y2="{y}"/>')
        lines.append(f'<text class="tick" x="{LEFT - 10}" y="{y}" dy="4">{short(number * step)}</text>')
    return "".join(lines)


def _step(value: Fraction) -> Fraction:
    """The smallest of 0.2, 0.1, 0.05, 0.02, … that reaches the value in six steps."""
    steps = (Fraction(digit, 10**power) for power in count(1) for digit in (2, 1, Fraction(1, 2)))
    return next(step for step, finer in pairwise(steps) if finer * 6 < value)


def _y(value: Fraction, top: Fraction) -> float:
    return TOP + PLOT_HEIGHT * (1 - float(value / top))


def _inside(kind: str, across: tuple[float, float], down: tuple[float, float], value: Fraction) -> str:
    """The value within its bar (left, width; upper, lower edge), where the bar can hold it."""
    (left, width), (upper, lower), text = across, down, short(value)
    if lower - upper < 20 or width < len(text) * DIGIT:
        return ""
    return svg.label(kind, left + width / 2, (upper + lower) / 2 + 4.5, text)
