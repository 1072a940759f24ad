"""An audit of rules as one self-contained page: tokens per round as bars, TV beside them, then a table."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape

from specproof.cli import svg
from specproof.cli.standings import HEADS, Row, Section, gap_text, tv_text
from specproof.cli.style import document, legend

# Geometry in SVG units, which are pixels at full size.
WIDTH, LEFT, PLOT, ROW, BAR, TOP = 960, 196, 500, 30, 19, 46
AXIS = 24
# Right edges of the columns beside the bars.
TOKENS, GAP, TV = 762, 862, 954

PARTS = {
    "pale": "the token that plain decoding gives as well",
    "kept": "accepted draft tokens, lossless rule",
    "short": "accepted draft tokens, lossy or unsound rule: the text does not follow the target's law",
}
WORDS = (
    "A round drafts some tokens, verifies them in one forward pass of the target and commits the accepted ones "
    "and one more. TV is the largest total variation between the law of the text and the target's: 0, up to "
    "rounding, for a lossless rule. The gap is 1 − tokens per round ÷ the best that a lossless rule can have on "
    "the same drafts, as far as that is known; it is below 0 where a lossy rule commits more, at the price of its "
    "TV. All numbers are sums over every draft; nothing was sampled."
)
COUPLING = (
    "coupling is shown without the noise that it shares with its drafter in an engine; there it accepts more."
)


def page(sections: Sequence[Section], command: Sequence[str], lead: str) -> str:
    """The whole document.

    Args:
        sections: at least one.
        command: what made it, for the reader to run again.
        lead: the first sentence.
    """
    highest = max(max(s.comparison.best, *(row.tokens for row in s.rows)) for s in sections)
    cards = "".join(_card(i, section, highest) for i, section in enumerate(sections))
    note = f'<p class="note">{COUPLING}</p>' if _coupled(sections) else ""
    body = (
        f'<p class="lead">{escape(lead)}</p>{_facts(sections)}<p class="note">{WORDS}</p>'
        f'<section class="card" aria-label="Legend">{legend(PARTS)}</section>{cards}'
        f"<h2>The same numbers</h2>"
        f'<section class="card scroll" aria-label="All numbers">{_table(sections)}</section>'
        f'{note}<p class="note">Made by <code>{escape(shlex.join(command))}</code></p>'
    )
    return document("Verification rules, audited exactly", body)


def _facts(sections: Sequence[Section]) -> str:
    rows = {row.rule: row for section in sections for row in section.rows}.values()
    claimed = [row for row in rows if row.verdict in ("EXACT", "NOT LOSSLESS")]
    good = all(row.ok for row in rows)
    exact = f"{sum(row.ok for row in claimed)} of {len(claimed)}"
    facts = (
        ("lossless rules with the target's law", exact, "good" if good else "bad"),
        ("largest TV among them", tv_text(max((row.tv for row in claimed), default=0.0)), ""),
        ("lossy or unsound rules, for comparison", str(len(rows) - len(claimed)), ""),
    )
    items = "".join(f'<div><dt>{name}</dt><dd class="{kind}">{value}</dd></div>' for name, value, kind in facts)
    return f'<dl class="facts">{items}</dl>'


def _card(i: int, section: Section, highest: float) -> str:
    return (
        f"<h2>{escape(section.title)}</h2>"
        f'<section class="card"><p class="note">{escape(section.note)}</p>'
        f'<div class="scroll">{bars(f"rules{i}", section, highest)}</div></section>'
    )


def bars(key: str, section: Section, highest: float) -> str:
    """One bar a rule; the best a lossless rule can have as a line; gap and TV beside."""
    scale = PLOT / highest
    height = TOP + len(section.rows) * ROW + AXIS
    best = section.comparison.best
    parts = [_axis(highest, scale, height)]
    for x, head in ((TOKENS, "tokens"), (GAP, "gap"), (TV, "TV")):
        parts.append(f'<text class="tick" x="{x}" y="{TOP - 20}">{head}</text>')
    parts += [_bar(row, TOP + i * ROW, scale) for i, row in enumerate(section.rows)]
    place = svg.number(LEFT + best * scale)
    name = "optimum" if section.comparison.optimum else "best lossless"
    parts.append(f'<line class="best" x1="{place}" x2="{place}" y1="{TOP - 12}" y2="{height - AXIS + 4}"/>')
    # Beside the heads of the columns the label must not follow its line all the way.
    label = svg.number(min(LEFT + best * scale, LEFT + PLOT - 64))
    parts.append(f'<text class="name best" x="{label}" y="{TOP - 20}">{name} {best:.2f}</text>')
    said = "; ".join(
        f"{row.rule}, {row.verdict}: {row.tokens:.4f}, gap {gap_text(row.gap)}, TV {tv_text(row.tv)}"
        for row in section.rows
    )
    said = f"{said}. {name} {best:.4f}."
    return svg.figure(key, (WIDTH, height), (f"Tokens per round: {section.comparison.group}", said), parts)


def _axis(highest: float, scale: float, height: float) -> str:
    lines = []
    for tokens in range(int(highest) + 1):
        x = svg.number(LEFT + tokens * scale)
        kind = "grid" if tokens else "grid base"
        lines.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="{TOP - 4}" y2="{height - AXIS + 4}"/>')
        lines.append(f'<text class="label draft" x="{x}" y="{height - 4}">{tokens}</text>')
    return "".join(lines)


def _bar(row: Row, top: float, scale: float) -> str:
    y, one = top + (ROW - BAR) / 2, LEFT + scale
    end = LEFT + row.tokens * scale
    kind, state = ("kept", "") if row.verdict == "EXACT" else ("short", " off")
    claim = "" if row.verdict == "EXACT" else f" · {row.verdict.lower()}"
    return (
        f'<text class="row" x="{LEFT - 10}" y="{svg.number(y + 15)}">{svg.titled(row.rule, row.rule)}'
        f'<tspan class="off">{escape(claim)}</tspan></text>'
        + svg.rect("pale", LEFT, y, scale, BAR)
        + svg.rect(kind, one, y, end - one, BAR)
        + f'<text class="row" x="{TOKENS}" y="{svg.number(y + 15)}">{row.tokens:.3f}</text>'
        f'<text class="tick" x="{GAP}" y="{svg.number(y + 15)}">{gap_text(row.gap)}</text>'
        f'<text class="tick{state}" x="{TV}" y="{svg.number(y + 15)}">{tv_text(row.tv)}</text>'
    )


def _table(sections: Sequence[Section]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in HEADS)
    bodies = []
    for section in sections:
        lines = [
            f'<tr><th class="group" scope="rowgroup" colspan="{len(HEADS)}">{escape(section.title)}</th></tr>'
        ]
        for row in section.rows:
            name, *cells = (escape(cell) for cell in row.cells)
            kind = "" if row.verdict == "EXACT" else ' class="lossy"'
            lines.append(
                f'<tr{kind}><th scope="row">{name}</th>' + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"
            )
        bodies.append(f"<tbody>{''.join(lines)}</tbody>")
    return f"<table><thead><tr>{head}</tr></thead>{''.join(bodies)}</table>"


def _coupled(sections: Sequence[Section]) -> bool:
    return any(row.rule == "coupling" for section in sections for row in section.rows)
