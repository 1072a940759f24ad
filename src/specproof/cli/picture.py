"""A worked example as one self-contained page: inline SVG, light and dark, and every number again in a table."""

from __future__ import annotations

import shlex
from fractions import Fraction
from html import escape

from specproof.audit.worked import WorkedExample
from specproof.cli import story
from specproof.cli.bars import sideways, stacked
from specproof.cli.digits import MISSING, exact, show
from specproof.cli.style import document, legend

# Class of a bar → what it stands for.
PARTS = {
    "kept": "drafted and kept",
    "rejected": "drafted and rejected",
    "redrawn": "redrawn after a rejection",
    "outline": "target",
}
FAULTS = {"right": "comes out as it should", "over": "too often", "short": "too rarely", "outline": "target"}


def page(example: WorkedExample) -> str:
    """The whole document; it loads nothing from anywhere."""
    steps = (
        ("Propose", story.propose(example)),
        ("Accept", story.accept(example)),
        ("Redraw", story.redraw(example)),
        ("Recover", story.recovered(example)),
    )
    told = "".join(f"<li><b>{head}</b><span>{escape(sentence)}</span></li>" for head, sentence in steps)
    body = f"""<p class="lead">A draft proposes a token, the target has the last word, and what comes out follows
the target's law. Every number here is a sum of exact fractions; nothing was sampled.</p>
{_facts(example)}
<section class="card" aria-label="Kept and redrawn probability">
{legend(PARTS)}
<div class="scroll">{stacked(example)}</div>
<p class="note">Narrow bars are the draft (pale: kept), wide ones what comes out. {_balance(example)}</p>
<ol>{told}</ol>
</section>
<h2>What goes wrong with one ingredient changed</h2>
{legend(FAULTS)}
<div class="mistakes">{_mistakes(example)}</div>
<h2>The same numbers</h2>
<section class="card scroll" aria-label="All numbers">{_table(example)}</section>
<p class="note">Labels in the pictures are rounded. Pointing at a number in the table shows its
fraction. Made by <code>{escape(_command(example))}</code></p>"""
    return document("Speculative sampling, worked exactly", body)


def _facts(example: WorkedExample) -> str:
    facts = (
        ("kept: P(accept)", show(1 - example.reject), ""),
        ("redrawn: P(reject) = Z = total variation", show(example.reject), ""),
        (
            "law that comes out",
            "equal to the target" if example.ok else "not the target",
            "good" if example.ok else "bad",
        ),
    )
    return (
        '<dl class="facts">'
        + "".join(f'<div><dt>{name}</dt><dd class="{kind}">{value}</dd></div>' for name, value, kind in facts)
        + "</dl>"
    )


def _balance(example: WorkedExample) -> str:
    if example.reject == 0:
        return "The rows are equal, so nothing is hatched and nothing is redrawn."
    mass = show(example.reject)
    return f"All hatched parts together are as high as all redrawn ones: {mass} leaves, {mass} comes back."


def _mistakes(example: WorkedExample) -> str:
    cards = []
    for mistake in example.mistakes:
        title = story.MISTAKES[mistake.name][0]
        state = "none" if mistake.ok else "wrong"
        cards.append(
            f'<section class="card"><h3>{escape(title)}</h3><div class="tv {state}">TV {show(mistake.tv)}</div>'
            f"<p>{escape(story.mistake(mistake))}</p>{sideways(example, mistake, title)}</section>"
        )
    return "".join(cards)


def _table(example: WorkedExample) -> str:
    residual = example.residual or (None,) * len(example.names)
    columns: list[tuple[str, tuple[Fraction | None, ...], str]] = [
        ("target", example.target, "1"),
        ("draft", example.draft, "1"),
        ("ratio", example.ratio, ""),
        ("kept with chance", example.accept, ""),
        ("drafted and kept", example.accepted, show(1 - example.reject)),
        ("residual", residual, MISSING if example.residual is None else "1"),
        ("redrawn", example.redrawn, show(example.reject)),
        ("kept + redrawn", example.recovered, "1"),
    ]
    head = "".join(f'<th scope="col">{name}</th>' for name, _, _ in columns)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(_cell(values[i]) for _, values, _ in columns)
        + "</tr>"
        for i, name in enumerate(example.names)
    )
    foot = "".join(f"<td>{total}</td>" for _, _, total in columns)
    note = f'<p class="note">{story.NEVER}</p>' if None in example.accept else ""
    return (
        f'<table><thead><tr><th scope="col">token</th>{head}</tr></thead><tbody>{body}</tbody>'
        f'<tfoot><tr><th scope="row">sum</th>{foot}</tr></tfoot></table>{note}'
    )


def _cell(value: Fraction | None) -> str:
    text = show(value)
    return f"<td>{text}</td>" if value is None or text == str(value) else f'<td title="{value}">{text}</td>'


def _command(example: WorkedExample) -> str:
    rows = (",".join(map(exact, row)) for row in (example.target, example.draft))
    return "specproof explain --target {} --draft {} --names {}".format(
        *rows, shlex.quote(",".join(example.names))
    )
