"""An audit's answer as one self-contained page: verdict, capital over tokens, panel bars, ledger, the plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from specproof.audit.answer import Answer, Check, Table
from specproof.cli.answer_plots import capital, panel
from specproof.cli.style import document, legend

WORDS = (
    "Each token is bet on before it is known, by the law that it should have. If it has it, the game is fair, and "
    "the capital ever reaches the line with a probability of no more than this test's part of the rate of false "
    "alarms, however often one looks. A correct engine's capital wanders below it and mostly falls."
)
PANEL_WORDS = (
    "Each is repeated, with a seed of its own each time. Bars are the shares of the tokens that came out "
    "first, outlines {}; the thin line is what chance does to a share, one standard deviation to each side."
)
# What the outlines of the panel are, and what its draws are called; a server's rows need not be known.
OUTLINES = {"endpoint": "the shares without speculation, which vary as much"}
DRAWS = {"endpoint": "texts"}
LEDGER_WORDS = "Total variation between rows of the engine's way of running the target and of one plain pass."


def page(answer: Answer) -> str:
    """The whole document; it loads nothing from anywhere."""
    parts = [
        f'<p class="lead">{escape(_sentence(answer.subject))} {escape(_sentence(answer.reason))}</p>',
        _facts(answer),
        *(f'<p class="note">{escape(note)}</p>' for note in answer.notes),
        _capital(answer),
        _panel(answer),
        _tests(answer),
        _families(answer),
        _ledger(answer),
        *(_table(table) for table in answer.tables),
        _plan(answer),
    ]
    return document(f"{answer.verdict.value}: audit {answer.kind}", "".join(parts))


def number(value: float | None) -> str:
    """A number as a reader wants it: few digits, no exponent where none is needed."""
    if value is None or value != value:
        return "–"
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-3 else f"{value:.1e}"


def _sentence(words: str) -> str:
    first = words[:1] if "://" in words.split(" ")[0] else words[:1].upper()
    return first + words[1:] + ("" if words.endswith((".", "?", "!")) else ".")


def _facts(answer: Answer) -> str:
    state = {0: "good", 1: "bad"}.get(answer.exit_code, "")
    facts: list[tuple[str, str, str]] = [("verdict", answer.verdict.value.capitalize(), state)]
    if answer.pvalue is not None:
        facts.append((f"p-value; false alarms ≤ {number(answer.alpha)}", number(answer.pvalue), ""))
    facts.append(("tokens of running text", f"{answer.samples:,}", ""))
    if answer.draws:
        facts.append((DRAWS.get(answer.kind, "draws after prefixes"), f"{answer.draws:,}", ""))
    if answer.acceptance is not None:
        facts.append(("acceptance", f"{answer.acceptance:.2f}", ""))
    if answer.tv is not None:
        facts.append(("estimated TV a token", number(answer.tv), "bad" if answer.exit_code == 1 else ""))
    elif answer.power < 1:
        facts.append(("TV that would be caught", number(answer.power), ""))
    items = "".join(f'<div><dt>{escape(n)}</dt><dd class="{kind}">{escape(v)}</dd></div>' for n, v, kind in facts)
    return f'<dl class="facts">{items}</dl>'


def _capital(answer: Answer) -> str:
    if not answer.tracks:
        return ""
    return (
        f'<h2>Capital over tokens</h2><section class="card"><p class="note">{WORDS}</p>'
        f'<div class="scroll">{capital(answer)}</div></section>'
    )


def _panel(answer: Answer) -> str:
    if not answer.panel:
        return ""
    outline = OUTLINES.get(answer.kind, "the target's probabilities")
    key = legend({"kept": "what came out", "outline": outline})
    cards = "".join(
        f'<section class="card"><h3>after <code>…{escape(bars.title)}</code></h3>{panel(i, bars)}</section>'
        for i, bars in enumerate(answer.panel)
    )
    note = f'<p class="note">{PANEL_WORDS.format(outline)}</p>'
    return f'<h2>Repeated prefixes</h2>{note}{key}<div class="prefixes">{cards}</div>'


def _tests(answer: Answer) -> str:
    rows = tuple(
        (test.name, f"{test.samples:,}", *map(number, (test.pvalue, test.level)), _outcome(test))
        for test in answer.tests
    )
    note = f"They share the rate of false alarms: the levels sum to {number(answer.alpha)} at most."
    return _table(Table("Tests", note, ("test", "samples", "p-value", "level", "outcome"), rows)) if rows else ""


def _outcome(test: Check) -> str:
    return "convicts" if test.pvalue <= test.level else "no alarm"


def _families(answer: Answer) -> str:
    rows = tuple(
        (each.fault, number(each.tv), number(each.needed), number(each.detectable), each.by)
        for each in sorted(answer.families, key=lambda each: each.detectable)
    )
    note = (
        "Total variation a token of each known fault at full size where this audit looked, the sample that finds "
        "it with 95 % power, and the smallest of its kind that this audit would have found."
    )
    heads = ("fault", "TV", "sample for 95 %", "smallest TV", "seen first by")
    return _table(Table("What would have been caught", note, heads, rows)) if rows else ""


def _ledger(answer: Answer) -> str:
    if not answer.ledger:
        return ""
    rows = tuple((name, number(value)) for name, value in answer.ledger.items())
    return _table(Table("Rounding", LEDGER_WORDS, ("ledger", "value"), rows))


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.heads)
    body = "".join(_row(row) for row in table.rows)
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<h2>{escape(table.title)}</h2>{note}<section class="card scroll" aria-label="{escape(table.title)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></section>"
    )


def _row(row: Sequence[str]) -> str:
    first, *rest = row
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
    return f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>'


def _plan(answer: Answer) -> str:
    replay = f'<p class="note">Again: <code>{escape(answer.replay)}</code></p>' if answer.replay else ""
    versions = ", ".join(f"{name} {version}" for name, version in answer.versions.items())
    return (
        f"<h2>What was fixed before the first sample</h2>"
        f'<section class="card"><p>Plan <code>{escape(answer.digest)}</code></p>'
        f'<pre class="scroll"><code>{escape(_indented(answer.plan))}</code></pre></section>'
        f'{replay}<p class="note">{escape(versions)}</p>'
    )


def _indented(plan: dict[str, Any]) -> str:
    return json.dumps(plan, indent=2, default=str)
