"""`specproof audit rule`: exact audits of rules, on random rows or the user's own, as table, JSON and picture."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from specproof.audit.adaptors import ADAPTORS
from specproof.audit.given import parse_row, parse_tree
from specproof.cli.flags import write_file
from specproof.errors import SpecproofError, unknown
from specproof.rules import RULES, Rule, find_rule
from specproof.tree import Tree
from specproof.types import Drawn

if TYPE_CHECKING:
    from specproof.audit.own import OwnRows
    from specproof.cli.standings import Section

STDOUT = Path("-")


def add_parser(kinds: Any) -> None:
    """Register the command."""
    rule = kinds.add_parser(
        "rule",
        help="a verification rule, by summing its law over every draft",
        description="Sum a rule's law over every draft, several rounds, rows that depend on the context; and the "
        "tokens that a round commits, beside other rules. With --target and --draft: on these rows.",
        epilog="example: specproof audit rule block --target 0.6,0.3,0.1 --draft 0.4,0.5,0.1 --tree chain:3",
        allow_abbrev=False,
    )
    rule.add_argument(
        "name", nargs="?", help=f"a rule, like block or lenience:0.5, or {', '.join(ADAPTORS)}", metavar="NAME"
    )
    rule.add_argument("--all", action="store_true", help="all rules; with rows, all that take the draft")
    rule.add_argument("--instances", type=int, default=300, help="random instances per rule (default 300)")
    rule.add_argument("--seed", type=int, default=0, help="of the instances (default 0)")
    rule.add_argument(
        "--samples", type=int, default=20_000, help="calls per instance of a foreign verifier (default 20000)"
    )
    rule.add_argument("--target", metavar="ROW", help="own rows: probabilities with commas between, summing to 1")
    rule.add_argument("--draft", metavar="ROW", help="what proposes, written the same way")
    rule.add_argument(
        "--tree", metavar="SHAPE", help="with rows: chain:3, 2x1 (children per level) or parents:-1,-1,0"
    )
    rule.add_argument("--drawn", metavar="HOW", help=f"with rows: {', '.join(get_args(Drawn))} (default iid)")
    rule.add_argument(
        "--json",
        type=Path,
        nargs="?",
        const=STDOUT,
        metavar="FILE",
        help="one JSON document, printed or to a file",
    )
    rule.add_argument("--html", type=Path, metavar="FILE", help="also write a self-contained page with a picture")
    rule.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Audit one rule or all of them; the exit code is 1 where one is not what it claims."""
    if args.all == (args.name is not None):
        raise SpecproofError(f"name one rule ({', '.join(RULES)}), or give --all")
    if args.name in ADAPTORS:
        return _run_foreign(args)
    if args.name is not None and args.name.partition(":")[0] not in RULES:
        raise unknown("rule", args.name, [*RULES, *ADAPTORS])
    if args.instances < 1:
        raise SpecproofError(f"--instances {args.instances} is not allowed: give a whole number >= 1")
    rules = list(RULES.values()) if args.all else [find_rule(args.name)]
    if args.target is not None or args.draft is not None:
        return _run_own(args, rules)
    for flag in ("tree", "drawn"):
        if getattr(args, flag) is not None:
            raise SpecproofError(
                f"--{flag} is for your own rows: give --target and --draft as well, or leave it out"
            )
    return _run_random(args, rules)


def _run_foreign(args: argparse.Namespace) -> int:
    """Audit another package's verifier, by its coins where they can be scripted, and by sampling."""
    for flag in ("target", "draft", "tree", "drawn", "html"):
        if getattr(args, flag) is not None:
            raise SpecproofError(f"--{flag} is for rules of this package: leave it out for {args.name!r}")
    from specproof.audit.sampled import audit_adaptor

    result = audit_adaptor(args.name, args.samples, args.seed)
    if args.json is None:
        print(result)
    else:
        text = json.dumps(asdict(result) | {"ok": result.ok}, indent=2)
        if args.json == STDOUT:
            print(text)
        else:
            write_file("--json", args.json, text)
    return 0 if result.ok else 1


def _run_random(args: argparse.Namespace, rules: Sequence[Rule]) -> int:
    from specproof.audit.compare import compare
    from specproof.audit.document import rules_document
    from specproof.audit.rules import audit_rule
    from specproof.cli.standings import audit_sections

    results = []
    for rule in rules:
        results.append(audit_rule(rule, args.instances, args.seed))
        if args.json != STDOUT:
            print(results[-1], flush=True)
            for case, known, found in results[-1].golden if args.name else ():
                print(f"    accepts {found:.12f} nodes a round; known {known:.12f} ({case})")
    comparisons = compare(rules, args.seed)
    document = rules_document(results, comparisons)
    lead = f"TV over {args.instances} random settings of each rule, several rounds each; tokens on common drafts."
    _report(args, document, audit_sections(results, comparisons), lead)
    return 0 if all(result.ok for result in results) else 1


def _run_own(args: argparse.Namespace, rules: Sequence[Rule]) -> int:
    if args.target is None or args.draft is None:
        missing = "--draft" if args.draft is None else "--target"
        raise SpecproofError(f"{missing} is missing: own rows are two, --target and --draft")
    target, draft = parse_row(args.target, "target"), parse_row(args.draft, "draft")
    tree = parse_tree("chain:1" if args.tree is None else args.tree)
    drawn = _drawn("iid" if args.drawn is None else args.drawn)
    from specproof.audit.compare import takes
    from specproof.audit.own import audit_own
    from specproof.cli.standings import own_section

    if args.all:
        rules = [rule for rule in rules if takes(rule, drawn, tree, len(target))]
    own = audit_own(rules, target, draft, tree, drawn)
    if args.json != STDOUT:
        for result in own.results:
            print(result)
        if args.name:
            _print_law(own)
    texts = own.results[0].length
    given = f"Target {args.target}, draft {args.draft}, {_shape(tree)} drawn {drawn}"
    lead = f"{given}: one round, and texts of {texts} tokens."
    _report(args, _own_document(own), (own_section(own),), lead)
    return 0 if all(result.ok for result in own.results) else 1


def _drawn(text: str) -> Drawn:
    for drawn in get_args(Drawn):
        if text == drawn:
            return drawn  # type: ignore[no-any-return]
    raise unknown("way of drawing", text, get_args(Drawn))


def _shape(tree: Tree) -> str:
    if tree.is_chain:
        return f"a chain of {len(tree)}"
    return f"a tree with parents {','.join(map(str, tree.parents))}"


def _report(args: argparse.Namespace, document: Any, sections: Sequence[Section], lead: str) -> None:
    """Table, JSON and page, as asked."""
    from specproof.cli.audit_picture import page

    if args.html is not None:
        write_file("--html", args.html, page(sections, ["specproof", *_command(args)], lead))
    text = json.dumps(document, indent=2, default=_plain)
    if args.json == STDOUT:
        print(text)
        return
    _print_table(sections)
    if args.json is not None:
        write_file("--json", args.json, text + "\n")
        print(f"JSON: {args.json}")
    if args.html is not None:
        print(f"Picture: {args.html}")


def _print_table(sections: Sequence[Section]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from specproof.cli.standings import HEADS

    console = Console(soft_wrap=True) if not sys.stdout.isatty() else Console()
    for section in sections:
        table = Table(box=SIMPLE_HEAD, header_style="dim", show_edge=False, padding=(0, 1))
        for place, head in enumerate(HEADS):
            table.add_column(head, justify="right" if place > 1 else "left", no_wrap=True)
        for row in section.rows:
            name, answer, *cells = row.cells
            table.add_row(Text(name), Text(answer, style="" if row.verdict == "EXACT" else "red"), *cells)
        console.print("", Text(section.title, style="bold"), sep="\n")
        console.print(Text(section.note, style="dim"))
        console.print(table)


def _print_law(own: OwnRows) -> None:
    """The law of the first token against the target, for one rule."""
    (result,) = own.results
    for token, (goal, found) in enumerate(zip(own.target, result.law, strict=True)):
        print(f"    token {token}: comes out {found:.12f}, target {float(goal):.12f}")


def _own_document(own: OwnRows) -> dict[str, Any]:
    comparison = own.comparison
    return {
        "target": own.target,
        "draft": own.draft,
        "parents": own.tree.parents,
        "drawn": own.drawn,
        "distance": own.distance,
        "best": comparison.best,
        "source": comparison.source,
        "optimum": comparison.optimum,
        "results": [asdict(r) | {"ok": r.ok, "verdict": r.verdict, "lossless": r.lossless} for r in own.results],
    }


def _plain(value: object) -> str:
    """A fraction as text, which `Fraction` reads again."""
    assert isinstance(value, Fraction)
    return str(value)


def _command(args: argparse.Namespace) -> list[str]:
    """What to type to get this again."""
    words = ["audit", "rule", "--all" if args.all else args.name]
    if args.target is None:
        return [*words, "--instances", str(args.instances), "--seed", str(args.seed)]
    words += ["--target", args.target, "--draft", args.draft]
    given = {"--tree": args.tree, "--drawn": args.drawn}
    return words + [word for flag, value in given.items() if value is not None for word in (f"{flag}={value}",)]
