"""What audits that give an `Answer` share on the command line: `--json`, `--html`, exit codes."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specproof.errors import SpecproofError

if TYPE_CHECKING:
    from specproof.audit.answer import Answer

EXIT_CODES = "Exit code 0 lossless, 1 biased, 2 wrong use, 3 no answer."


def add_answer_flags(parser: argparse.ArgumentParser) -> None:
    """`--json` and `--html FILE`."""
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--html", default=None, help="write the answer as a page with plots", metavar="FILE")


def check_html(args: argparse.Namespace) -> None:
    """Call before anything is run: minutes later is too late to learn that the page has no place.

    Raises:
        SpecproofError: `--html` in a folder that is not there.
    """
    if args.html is not None and not Path(args.html).resolve().parent.is_dir():
        raise SpecproofError(f"--html {args.html}: there is no such folder; make it, or write elsewhere")


def give(
    answer: Answer,
    args: argparse.Namespace,
    said: Any = None,
    *,
    further: dict[str, Any] | None = None,
    drawn: Callable[[], str] | None = None,
) -> int:
    """Print the answer, write its page; the exit code.

    Args:
        answer, args: what was found, and the flags.
        said: printed in the answer's place where it is not JSON.
        further: what the JSON document holds besides the answer.
        drawn: makes another page than the usual one.
    """
    document = answer.document() | (further or {})
    print(json.dumps(document, indent=2) if args.json else (answer if said is None else said))
    if args.html is not None:
        from specproof.cli.answer_page import page

        try:
            Path(args.html).write_text(page(answer) if drawn is None else drawn(), encoding="utf-8")
        except OSError as error:
            raise SpecproofError(f"--html {args.html}: {error.strerror}; write elsewhere") from None
        print(f"page: {args.html}", file=sys.stderr)
    return answer.exit_code


def replay_command() -> str:
    """The command that is running, for reports."""
    return shlex.join(["specproof", *sys.argv[1:]])
