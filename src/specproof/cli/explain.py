"""`specproof explain`: what happens to one drafted token, worked exactly for a pair of rows. Needs no torch."""

from __future__ import annotations

import argparse
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specproof.audit.given import parse_row
from specproof.audit.worked import WorkedExample, worked_example
from specproof.cli import story
from specproof.cli.digits import MISSING, show
from specproof.cli.flags import write_file
from specproof.cli.picture import page

WIDTHS = 80, 100
NAME_WIDTH = 16


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "explain",
        help="work one verification through, exactly, for a pair of rows",
        description="Why speculative sampling is lossless, worked exactly for a target row and a draft row.",
        epilog="example: specproof explain --target 0.6,0.3,0.1 --draft 0.4,0.5,0.1 --names cat,dog,fish",
    )
    row = "probabilities with commas between, decimals or fractions, summing to 1"
    parser.add_argument("--target", required=True, metavar="ROW", help=f"the model whose law must come out: {row}")
    parser.add_argument("--draft", required=True, metavar="ROW", help="what proposes, written the same way")
    parser.add_argument("--names", metavar="NAMES", help="names of the tokens, with commas between")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="also write a self-contained page with a picture"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the example, and write its page if asked.

    Raises:
        SpecproofError: rows or names that do not fit, or a file that cannot be written.
    """
    names = None if args.names is None else [name.strip() for name in args.names.split(",")]
    example = worked_example(parse_row(args.target, "target"), parse_row(args.draft, "draft"), names)
    if args.html is not None:
        write_file("--html", args.html, page(example))
    if args.json:
        print(json.dumps(as_dict(example), indent=2))
        return 0
    console = Console()
    lowest, highest = WIDTHS
    console.width = min(max(console.width, lowest), highest)
    print_example(console, example)
    if args.html is not None:
        console.print(Text(f"Picture: {args.html}"))
    return 0


def as_dict(example: WorkedExample) -> dict[str, Any]:
    """The example for JSON: every number as an exact fraction and as a float, lists in the order of the tokens."""

    def number(value: Fraction) -> dict[str, Any]:
        return {"exact": str(value), "float": float(value)}

    def row(values: tuple[Fraction | None, ...] | None) -> dict[str, Any] | None:
        if values is None:
            return None
        return {
            "exact": [None if value is None else str(value) for value in values],
            "float": [None if value is None else float(value) for value in values],
        }

    rows = (
        "target",
        "draft",
        "ratio",
        "accept",
        "minimum",
        "excess",
        "residual",
        "accepted",
        "redrawn",
        "recovered",
    )
    return {
        "names": list(example.names),
        **{name: row(getattr(example, name)) for name in rows},
        **{name: number(getattr(example, name)) for name in ("reject", "z", "tv")},
        "ok": example.ok,
        "mistakes": [
            {"name": m.name, "reject": number(m.reject), "law": row(m.law), "tv": number(m.tv), "ok": m.ok}
            for m in example.mistakes
        ],
    }


def print_example(console: Console, example: WorkedExample) -> None:
    """Three tables with the sentences that lead to them."""
    _say(console, "Propose", story.propose(example))
    _say(console, "Accept", story.accept(example))
    console.print(_accept_table(example))
    if None in example.accept:
        console.print(Text(f" {story.NEVER}", style="dim"))
    console.print()
    _say(console, "Redraw", story.redraw(example))
    _say(console, "Recover", story.recovered(example))
    console.print(_redraw_table(example), "")
    _say(console, "Mistakes", "Each exchanges one ingredient and keeps the rest. The law that then comes out:")
    console.print(_mistakes_table(example))


def _say(console: Console, head: str, sentence: str) -> None:
    line = Table.grid(padding=(0, 1))
    line.add_column(width=8)
    line.add_row(Text(head, style="bold"), Text(sentence))
    console.print(line)


def _accept_table(example: WorkedExample) -> Table:
    table = _table("target", "draft", "ratio", "kept with chance", "drafted and kept")
    for i, name in enumerate(example.names):
        table.add_row(
            Text(name),
            show(example.target[i]),
            show(example.draft[i]),
            show(example.ratio[i]),
            show(example.accept[i]),
            Text(show(example.accepted[i]), style="blue"),
        )
    _total(table, "sum", "1", "1", "", "", show(sum(example.accepted, Fraction(0))))
    return table


def _redraw_table(example: WorkedExample) -> Table:
    table = _table("(target − draft)⁺", "residual", "redrawn", "kept + redrawn", "= target")
    for i, name in enumerate(example.names):
        same = example.recovered[i] == example.target[i]
        table.add_row(
            Text(name),
            show(example.excess[i]),
            show(None if example.residual is None else example.residual[i]),
            Text(show(example.redrawn[i]), style="yellow"),
            show(example.recovered[i]),
            Text("✓", style="green") if same else Text("✗", style="red"),
        )
    residual = MISSING if example.residual is None else "1"
    _total(table, "sum", show(example.z), residual, show(example.reject), "1", "")
    return table


def _mistakes_table(example: WorkedExample) -> Table:
    table = _table("target", *(story.MISTAKES[mistake.name][0].lower() for mistake in example.mistakes))
    for i, name in enumerate(example.names):
        laws = (
            Text(show(m.law[i]), style="" if m.law[i] == example.target[i] else "red") for m in example.mistakes
        )
        table.add_row(Text(name), show(example.target[i]), *laws)
    _total(table, "TV", "", *(show(mistake.tv) for mistake in example.mistakes))
    return table


def _table(*heads: str) -> Table:
    # Names and heads are Text where they may look like rich's markup.
    table = Table(box=SIMPLE_HEAD, header_style="dim", show_edge=False, padding=(0, 1))
    table.add_column("token", max_width=NAME_WIDTH, overflow="ellipsis", no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right", vertical="bottom")
    return table


def _total(table: Table, *cells: str) -> None:
    table.add_row(*cells, style="bold")
