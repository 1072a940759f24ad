"""`specproof`: one sub-command a file, wrong input gives one line and exit code 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from specproof import __version__
from specproof.cli import audit, bench, demo, explain, generate, prove, rollout, serve, train
from specproof.errors import SpecproofError

COMMANDS = (generate, audit, prove, explain, bench, train, rollout, demo, serve)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line; importing and building it loads no torch."""
    parser = _Parser(
        prog="specproof",
        description="Speculative decoding for language models that can prove it is lossless.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"specproof {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code (0 fine, 1 an audit or a text that failed, 2 wrong input)."""
    args = build_parser().parse_args(argv)
    try:
        code: int = args.run(args)
    except SpecproofError as error:
        print(f"specproof: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
