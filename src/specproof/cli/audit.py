"""`specproof audit`: audits of rules, of engines and of their parts. Exit code 1 if something is not lossless."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from specproof.cli import (
    audit_drafter,
    audit_endpoint,
    audit_engine,
    audit_numerics,
    audit_parameters,
    audit_rollouts,
    audit_rule,
    audit_transformers,
)
from specproof.cli.flags import add_model_flags, prepare_torch
from specproof.errors import SpecproofError


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "audit",
        help="say whether a rule or the engine is lossless",
        description="Audits: exact ones, and statistical ones with a stated rate of false alarms.",
    )
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    audit_rule.add_parser(kinds)
    audit_engine.add_parser(kinds)
    audit_endpoint.add_parser(kinds)
    audit_transformers.add_parser(kinds)
    audit_rollouts.add_parser(kinds)
    audit_numerics.add_parser(kinds)
    audit_parameters.add_parser(kinds)
    audit_drafter.add_parser(kinds)
    _add_greedy(kinds)
    _add_self_test(kinds)


def _add_greedy(kinds: Any) -> None:
    greedy = kinds.add_parser(
        "greedy",
        help="a real model at temperature 0: speculative text against plain text",
        description="Decode twenty prompts with and without speculation; texts are equal or part at a near-tie.",
        allow_abbrev=False,
    )
    add_model_flags(greedy)
    greedy.add_argument(
        "--drafter",
        default="ngram",
        help="none, ngram (default), suffix, early_exit, model, eagle3, medusa or dflash",
        metavar="NAME",
    )
    greedy.add_argument("--draft-model", default=None, help="folder or name of the smaller model", metavar="NAME")
    greedy.add_argument("--prompts", type=int, default=20, help="how many of the twenty (default 20)")
    greedy.add_argument("--max-tokens", type=int, default=128, help="tokens per prompt (default 128)")
    greedy.set_defaults(run=run_greedy)


def _add_self_test(kinds: Any) -> None:
    test = kinds.add_parser(
        "self-test",
        help="the audits themselves, on seeded faults and on controls",
        description="Plant every fault of the catalogue in a correct part and require that its audit catches it; "
        "require that the controls, which only look like faults, pass.",
        allow_abbrev=False,
    )
    test.add_argument("--json", action="store_true", help="one JSON document")
    test.set_defaults(run=run_self_test)


def run_greedy(args: argparse.Namespace) -> int:
    """Compare texts at temperature 0 on a real model."""
    prepare_torch(args)
    from specproof.audit.greedy import compare_greedy
    from specproof.audit.prompts import PROMPTS
    from specproof.engine.loading import chat_tokens, load_engine

    if not 1 <= args.prompts <= len(PROMPTS):
        raise SpecproofError(f"--prompts {args.prompts} is not allowed: give 1 to {len(PROMPTS)}")
    engine = load_engine(
        args.model, drafter=args.drafter, draft_model=args.draft_model, dtype=args.dtype, device=args.device
    )
    prompts = [chat_tokens(engine.tokenizer, text) for text in PROMPTS[: args.prompts]]
    results = []
    for result in compare_greedy(engine, prompts, args.max_tokens):
        results.append(result)
        print(result, flush=True)
    equal = sum(result.gap is None for result in results)
    print(f"{equal} of {len(results)} equal, {sum(r.ok for r in results) - equal} parted at a near-tie")
    return 0 if all(result.ok for result in results) else 1


def run_self_test(args: argparse.Namespace) -> int:
    """Run the catalogue of seeded faults."""
    from specproof.audit.selftest import self_test

    result = self_test()
    if args.json:
        rows = [asdict(row) | {"ok": row.ok, "verdict": row.verdict} for row in result.rows]
        print(json.dumps({"ok": result.ok, "rows": rows}, indent=2))
    else:
        from specproof.cli.catalogue import print_catalogue

        print_catalogue(result)
    return 0 if result.ok else 1
