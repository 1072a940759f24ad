"""The ledger as one self-contained page: histograms of TV by setting, and the quantile tables."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from specproof.cli import svg
from specproof.cli.audit_numerics import HEADS, lines
from specproof.cli.style import document, legend

if TYPE_CHECKING:
    from specproof.audit.numerics.moved import Moved
    from specproof.audit.numerics.result import NumericsResult

# Geometry in SVG units, which are pixels at full size.
WIDTH, LEFT, PANEL, BETWEEN, STRIP, TOP, AXIS = 940, 196, 350, 30, 46, 40, 26
BINS = 50
# Less than this is drawn as this: equal rows have no logarithm.
LEAST = 1e-17
WORDS = (
    "Each strip shows how often a row was moved how far, on a logarithmic axis of total variation: on the left "
    "from the reference in higher precision, on the right from plain decoding (one row of one text a forward) in "
    "the same precision, which is what speculation or batching adds. A flip is a position whose likeliest token "
    "changed; the widest flip is the largest difference of log p between the two likeliest tokens there. "
    "|Δ log p| is the largest over all positions and tokens."
)


def page(result: NumericsResult) -> str:
    """The whole document."""
    good = "good" if result.ok else "bad"
    plain = result.measured[0].reference.tv
    facts = (
        ("verdict", result.verdict.value, good),
        ("positions", str(result.samples), ""),
        (f"mean TV of plain decoding from {result.reference}", f"{plain.mean():.2g}", ""),
    )
    items = "".join(f'<div><dt>{name}</dt><dd class="{kind}">{value}</dd></div>' for name, value, kind in facts)
    parts = {"pale": "from the reference", "kept": "from plain decoding", "over": "further than rounding"}
    tables = "".join(
        f"<h2>Against {escape(other)}</h2>"
        f'<section class="card scroll">{_table(lines(result, decoded=decoded))}</section>'
        for decoded, other in ((False, f"the {result.reference} reference"), (True, "plain decoding"))
    )
    versions = ", ".join(f"{name} {version}" for name, version in result.answer.versions.items())
    body = (
        f'<p class="lead">{escape(result.reason)}.</p><dl class="facts">{items}</dl><p class="note">{WORDS}</p>'
        f'<section class="card">{legend(parts)}<div class="scroll">{_figure(result)}</div></section>{tables}'
        f'<p class="note">{escape(result.model)} in {escape(result.dtype)}; {escape(versions)}. Made by '
        f"<code>{escape(result.replay)}</code></p>"
    )
    return document("Numerics of a model's rows", body)


def _table(rows: list[tuple[str, ...]]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in HEADS)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for name, *cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _figure(result: NumericsResult) -> str:
    """A strip a setting, two histograms in each."""
    values = np.concatenate([each.reference.tv for each in result.measured])
    positive = values[values > LEAST]
    low = float(np.floor(np.log10(positive.min(initial=1e-3)))) - 0.2
    high = min(0.0, float(np.ceil(np.log10(positive.max(initial=1e-2)))))
    height = TOP + len(result.measured) * STRIP + AXIS
    parts = [
        f'<text class="draft" x="{x}" y="{TOP - 18}">{name}</text>'
        for x, name in ((LEFT, "TV from the reference"), (LEFT + PANEL + BETWEEN, "TV from plain decoding"))
    ]
    for left in (LEFT, LEFT + PANEL + BETWEEN):
        for power in range(int(np.ceil(low)), int(high) + 1):
            x = svg.number(left + (power - low) / (high - low) * PANEL)
            parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP - 8}" y2="{height - AXIS}"/>')
            parts.append(f'<text class="label draft" x="{x}" y="{height - 6}">1e{power}</text>')
    said = []
    for strip, each in enumerate(result.measured):
        base = TOP + (strip + 1) * STRIP - 8
        wrong = each in result.faulty
        short = str(each.setting).replace("keys and values in", "kv")
        parts.append(f'<text class="row" x="{LEFT - 12}" y="{base - 8}">{escape(short)}</text>')
        parts += _bars("pale", each.reference, (LEFT, base), (low, high))
        if each.setting != each.setting.plain:
            place = (LEFT + PANEL + BETWEEN, base)
            parts += _bars("over" if wrong else "kept", each.decoded, place, (low, high))
        said.append(
            f"{each.setting}: median {np.median(each.reference.tv):.2g} from the reference, "
            f"{np.median(each.decoded.tv):.2g} from plain decoding"
        )
    words = ("How far rows are moved, by setting", "; ".join(said) + ".")
    return svg.figure("ledger", (WIDTH, height), words, parts)


def _bars(kind: str, moved: Moved, place: tuple[float, float], limits: tuple[float, float]) -> Iterator[str]:
    """A histogram of the logarithms of TV; its highest bar fills the strip."""
    (left, base), (low, high) = place, limits
    logs = np.clip(np.log10(np.maximum(moved.tv, LEAST)), low, high)
    counts, _ = np.histogram(logs, BINS, (low, high))
    step = PANEL / BINS
    for number, count in enumerate(counts):
        tall = count / counts.max() * (STRIP - 14)
        yield svg.rect(kind, left + number * step, base - tall, step - 1, tall)
    yield f'<line class="grid base" x1="{left}" x2="{left + PANEL}" y1="{base}" y2="{base}"/>'
