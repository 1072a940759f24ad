"""`specproof prove`: a rule is lossless for all rows, or here are rows for which it is not."""

from __future__ import annotations

import argparse
import json
from typing import Any

from specproof.errors import SpecproofError

_DRAWN = ("iid", "without_replacement", "top_and_one", "point")


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "prove",
        help="prove a rule lossless for all rows of a small vocabulary and shape, or refute it",
        description="Prove that a rule's output law is the target's for all rows of a vocabulary and a shape, or "
        "print a small counterexample. Needs Z3: pip install 'specproof[prove]'.",
        allow_abbrev=False,
    )
    parser.add_argument("rule", metavar="RULE", help="a rule, or MODULE:FUNCTION for a specification of your own")
    parser.add_argument("--vocab", type=int, default=2, help="number of tokens (default 2)", metavar="N")
    parser.add_argument(
        "--shape", default="chain:1", help="chain:3, or children per level: 2, 2x2 (default chain:1)"
    )
    parser.add_argument("--drawn", choices=_DRAWN, help="how the draft is drawn (default: the rule's first way)")
    parser.add_argument(
        "--timeout", type=float, default=300, help="give up after about so long (default 300)", metavar="SECONDS"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prove or refute; exit code 1 unless proved."""
    if args.timeout <= 0:
        raise SpecproofError(f"--timeout {args.timeout} is not allowed: give seconds > 0")
    from specproof.audit.proof import prove_rule

    result = prove_rule(args.rule, args.vocab, args.shape, args.drawn, args.timeout)
    print(json.dumps(result.as_dict(), indent=2) if args.json else result)
    return 0 if result.ok else 1
