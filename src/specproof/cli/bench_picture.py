"""A bench as one self-contained page: speed-ups and acceptance as inline SVG, light and dark, then all numbers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from specproof.bench.advice import credible
from specproof.bench.figures import MEAN, Figures
from specproof.bench.run import BenchResult
from specproof.bench.ways import BASE
from specproof.cli import svg
from specproof.cli.bench_charts import acceptance, forwards, speedups
from specproof.cli.bench_table import MISSING, depths, made_lines, number, span, temperatures, text_lines
from specproof.cli.style import document, legend

SPEEDS = {
    "kept": "faster than plain decoding",
    "over": "slower",
    "outline": "predicted by the cost model",
}
WORDS = (
    "Every way of decoding takes turns with the others on the same prompts in one run. A speed-up is seconds per "
    "token of plain decoding over those of the way, by medians of the turns, from the first token on; the thin "
    "line spans the turns. A prediction puts together what forwards, drafts and verification cost when measured "
    "one by one, and how much was accepted at each depth."
)
ACCEPTED = (
    "Acceptance by depth: of the steps that drafted a token there, those that accepted it. Drafts of full length "
    "count too, so that it is known where speculation does not pay. No bar: fewer than eight steps."
)


def page(result: BenchResult) -> str:
    """The whole document; it loads nothing from anywhere."""
    ways = [way for way in dict.fromkeys(one.way for one in result.figures) if way != BASE]
    body = (
        f'<p class="lead">{escape(_lead(result))}</p>{_facts(result)}<p class="note">{WORDS}</p>'
        + "".join(_temperature(result, temperature, i) for i, temperature in enumerate(temperatures(result)))
        + _more(result, ways)
        + "<h2>The same numbers</h2>"
        + "".join(_table(result, temperature) for temperature in temperatures(result))
        + "".join(f'<p class="note">{escape(line)}</p>' for line in (*text_lines(result), *result.notes))
        + _made(result)
    )
    return document("Does speculation pay here?", body)


def _lead(result: BenchResult) -> str:
    made = result.made
    kinds = len(made["prompts"]["kinds"])
    of = "one kind of prompts" if kinds == 1 else f"{kinds} kinds of prompts"
    return (
        f"{made['model']} in {made['dtype']} on {made['device']}, {made['threads']} "
        f"{'thread' if made['threads'] == 1 else 'threads'}, one request at a time: plain decoding against "
        f"{len(made['ways']) - 1} drafters on {of}."
    )


def _facts(result: BenchResult) -> str:
    """For each temperature the best drafter's mean, and whether texts are right."""
    facts = []
    for temperature in temperatures(result):
        means = [one for one in _means(result, temperature) if one.way not in result.wrong | {BASE}]
        best = max(means, key=credible, default=None)
        if best is not None and best.speedup is not None:
            kind = "good" if best.speedup > 1 else "bad"
            facts.append((f"{best.way} at temperature {temperature:g}", f"{best.speedup:.2f}x", kind))
    if result.checked:
        right = "near-ties apart" if result.parted and result.ok else "equal" if result.ok else "wrong"
        facts.append(("texts at temperature 0, with and without", right, "good" if result.ok else "bad"))
    items = "".join(
        f'<div><dt>{escape(name)}</dt><dd class="{kind}">{value}</dd></div>' for name, value, kind in facts
    )
    return f'<dl class="facts">{items}</dl>'


def _temperature(result: BenchResult, temperature: float, i: int) -> str:
    here = [one for one in result.figures if one.temperature == temperature and one.way != BASE]
    advice = "".join(
        f"<li><b>{escape('all kinds' if s.kind == MEAN else s.kind)}</b><span>{escape(s.text)}</span></li>"
        for s in result.advice
        if s.temperature == temperature
    )
    return (
        f"<h2>Speed-up at temperature {temperature:g}</h2>"
        f'<section class="card">{legend(SPEEDS)}'
        f'<div class="scroll">{speedups(f"speed{i}", here, result.wrong)}</div><ol>{advice}</ol></section>'
    )


# Of temperatures in the charts of acceptance; a fifth stands in the tables alone.
_COLOURS = ("kept", "redrawn", "pale", "right")


def _more(result: BenchResult, ways: Sequence[str]) -> str:
    """What the speed-ups are made of: acceptance, and forwards."""
    kinds = dict(zip(_COLOURS, temperatures(result), strict=False))
    shown = {kind: f"temperature {temperature:g}" for kind, temperature in kinds.items()}
    panels = "".join(
        f'<section class="card"><h3>{escape(way)}</h3>'
        f"{acceptance(f'depth{i}', [one for one in result.figures if one.way == way and one.kind == MEAN], kinds)}"
        "</section>"
        for i, way in enumerate(ways)
    )
    return (
        f'<h2>What was accepted</h2><p class="note">{ACCEPTED}</p>{legend(shown)}'
        f'<div class="mistakes">{panels}</div>'
        '<h2>What a forward costs</h2><section class="card"><p class="note">Seconds of one target forward by the '
        "number of tokens it scores. The flatter, the cheaper it is to check a draft.</p>"
        f'<div class="scroll">{forwards(result.forwards)}</div></section>'
    )


def _means(result: BenchResult, temperature: float) -> list[Figures]:
    return [one for one in result.figures if one.kind == MEAN and one.temperature == temperature]


_HEADS = (
    *("tokens/s", "speed-up", "from–to", "whole request", "predicted", "tokens per forward", "acceptance"),
    *("acceptance by depth", "pays from", "drafts in"),
)


def _table(result: BenchResult, temperature: float) -> str:
    here = [one for one in result.figures if one.temperature == temperature]
    head = "".join(f'<th scope="col">{name}</th>' for name in _HEADS)
    rows = []
    for kind in dict.fromkeys(one.kind for one in here):
        name = f"{kind}, temperature {temperature:g}"
        rows.append(f'<tr><th class="group" scope="rowgroup" colspan="{len(_HEADS) + 1}">{escape(name)}</th></tr>')
        rows += [_row(one, result.wrong) for one in here if one.kind == kind]
    return (
        f'<section class="card scroll"><table><thead><tr><th scope="col">drafter</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></section>"
    )


def _row(one: Figures, wrong: frozenset[str]) -> str:
    plain = one.way == BASE
    cells = (
        number(one.tokens_per_second, "{:.1f}"),
        number(one.speedup, "{:.2f}x"),
        span(one),
        number(one.request_speedup, "{:.2f}x"),
        number(one.predicted_speedup, "{:.2f}x"),
        f"{one.tokens_per_forward:.2f}",
        MISSING if plain else f"{one.acceptance:.2f}",
        depths(one),
        number(one.break_even, "{:.2f}"),
        MISSING if plain else f"{100 * one.drafting:.0f} %",
    )
    name = f"{one.way} (WRONG TEXT)" if one.way in wrong else one.way
    return (
        f'<tr><th scope="row">{svg.titled(name, name)}</th>'
        + "".join(f"<td>{escape(c)}</td>" for c in cells)
        + "</tr>"
    )


def _made(result: BenchResult) -> str:
    *facts, command = made_lines(result)
    lines = "".join(f'<p class="note">{escape(line)}</p>' for line in facts)
    return f'{lines}<p class="note">Made by <code>{escape(command)}</code></p>'
