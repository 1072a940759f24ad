"""`specproof audit`: exact audits of rules and of the engine. Exit code 1 if something is not lossless."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, fields
from typing import Any

from specproof.cli import audit_rule
from specproof.cli.flags import add_model_flags, prepare_torch
from specproof.errors import SpecproofError, unknown
from specproof.types import SamplingParams


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "audit", help="say whether a rule or the engine is lossless", description="Audits with exact answers."
    )
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    audit_rule.add_parser(kinds)
    _add_engine(kinds)
    _add_greedy(kinds)
    _add_self_test(kinds)


def _add_engine(kinds: Any) -> None:
    engine = kinds.add_parser(
        "engine",
        help="the whole engine, by enumerating every random decision",
        description="Run the whole engine on a tiny transformer along every path its random decisions can take, "
        "and compare the exact law of its texts with the model's.",
        allow_abbrev=False,
    )
    engine.add_argument(
        "--exact", action="store_true", required=True, help="enumerate (the only audit of the engine)"
    )
    engine.add_argument("--rule", default=None, help="only this rule", metavar="NAME")
    engine.add_argument("--drafter", default=None, help="only this drafter", metavar="NAME")
    engine.add_argument(
        "--params", default="filters", help="filters (default), or text: penalties, bans and all that looks at it"
    )
    engine.add_argument("--architecture", default="llama", help="llama (default), qwen2, qwen3 or gpt2")
    engine.add_argument("--max-tokens", type=int, default=None, help="longer texts; paths grow exponentially")
    engine.add_argument("--mutants", action="store_true", help="audit engines with a planted fault as well")
    engine.add_argument("--json", action="store_true", help="one JSON document")
    engine.set_defaults(run=run_engine)


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
        help="none, ngram (default), suffix, early_exit, model or eagle3",
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


def run_engine(args: argparse.Namespace) -> int:
    """Audit the engine over rules, drafters and sampling parameters."""
    from specproof.rules import RULES

    if args.rule is not None and args.rule not in RULES:
        raise unknown("rule", args.rule, RULES)
    if args.rule is not None and not RULES[args.rule].usable:
        raise SpecproofError(f"rule {args.rule!r} is for audits of rules only: specproof audit rule {args.rule}")
    from specproof.audit.engine_suite import audit_engines
    from specproof.audit.selftest import audit_mutants

    rules, drafters = [args.rule] if args.rule else [], [args.drafter] if args.drafter else []
    results, found = [], []
    for params, result in audit_engines(
        rules, drafters, architecture=args.architecture, params=args.params, max_tokens=args.max_tokens
    ):
        results.append(result)
        if not args.json:
            print(f"{result} ({_shown(params)})", flush=True)
    if not results:
        raise SpecproofError(f"rule {args.rule!r} does not take what drafter {args.drafter!r} draws")
    for description, result in audit_mutants(args.architecture) if args.mutants else ():
        found.append((description, result))
        if not args.json:
            print(f"{'missed' if result.ok else 'caught'}: TV {result.tv:.1e}: {description}", flush=True)
    if args.json:
        document = {
            "results": [asdict(result) | {"ok": result.ok} for result in results],
            "mutants": [{"fault": text, "tv": result.tv, "caught": not result.ok} for text, result in found],
        }
        print(json.dumps(document, indent=2))
    return 0 if all(result.ok for result in results) and not any(result.ok for _, result in found) else 1


def _shown(params: SamplingParams) -> str:
    """The filters, then whatever else is not as usual."""
    usual, own = SamplingParams(), len(params.processors)
    rest = [f.name for f in fields(params) if getattr(params, f.name) != getattr(usual, f.name)]
    shown = {name: getattr(params, name) for name in rest if name not in ("max_tokens", "processors")}
    shown = {"temperature": params.temperature, "top_k": params.top_k, "top_p": params.top_p} | shown
    words = [f"{name.replace('_', '-')} {value}" for name, value in shown.items()]
    return ", ".join(words + ([f"{own} own function"] if own else []))


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
