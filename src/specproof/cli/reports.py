"""Flags and files that the reports of audits share: text, one JSON document, one page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specproof.cli.flags import write_file

STDOUT = Path("-")


def add_report_flags(parser: argparse.ArgumentParser) -> None:
    """--json, printed or to a file, and --html."""
    group = parser.add_argument_group("report")
    group.add_argument(
        "--json",
        type=Path,
        nargs="?",
        const=STDOUT,
        metavar="FILE",
        help="one JSON document, printed or to a file",
    )
    group.add_argument("--html", type=Path, metavar="FILE", help="also write a self-contained page with pictures")


def report(args: argparse.Namespace, text: str, document: dict[str, Any], page: Callable[[], str]) -> None:
    """Say what was found, in the ways that were asked for."""
    written = json.dumps(document, indent=2, allow_nan=False)
    if args.html is not None:
        write_file("--html", args.html, page())
    if args.json == STDOUT:
        print(written)
        return
    print(text)
    if args.json is not None:
        write_file("--json", args.json, written + "\n")
        print(f"JSON: {args.json}")
    if args.html is not None:
        print(f"Picture: {args.html}")
