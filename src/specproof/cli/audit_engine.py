"""`specproof audit engine`: a real model by statistics, or a tiny one exactly (`--exact`)."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, fields
from functools import partial
from typing import Any

from specproof.cli.answers import EXIT_CODES, add_answer_flags, check_html, give, replay_command
from specproof.cli.flags import add_model_flags, add_sampling_flags, prepare_torch, sampling_from
from specproof.errors import SpecproofError, unknown
from specproof.types import SamplingParams

# Flags of the exact audit only, and of both; all others are of the statistical one.
_EXACT = ("architecture", "params", "mutants")
_BOTH = ("exact", "rule", "drafter", "max_tokens", "json", "run", "help")


def add_parser(kinds: Any) -> None:
    """Register the command."""
    engine = kinds.add_parser(
        "engine",
        help="the whole engine: a real model by statistics, or a tiny one exactly",
        description="Run the engine on a model, score every token again from the text alone, and bet against the "
        "claim that each was drawn from the model's own law. A correct engine is called biased at most at rate "
        "--alpha, however often one looks. With --exact: enumerate every random decision on a tiny transformer. "
        + EXIT_CODES,
        allow_abbrev=False,
        conflict_handler="resolve",
    )
    add_model_flags(engine)
    add_sampling_flags(engine)
    engine.add_argument("--rule", default=None, help="verification rule; with --exact all", metavar="NAME")
    engine.add_argument(
        "--drafter", default=None, help="drafter (default ngram); with --exact all", metavar="NAME"
    )
    engine.add_argument("--draft-model", default=None, help="folder or name of the smaller model", metavar="NAME")
    engine.add_argument(
        "--max-tokens",
        type=int,
        default=None,
        help="most tokens of a text (default 64; with --exact 3)",
        metavar="N",
    )
    engine.add_argument("--prompt", action="append", default=[], help="may be repeated (default: twenty)")
    engine.add_argument("--tokens", type=int, default=4096, help="most tokens to audit (default 4096)")
    engine.add_argument("--alpha", type=float, default=1e-3, help="rate of false alarms (default 0.001)")
    engine.add_argument(
        "--detect", type=float, default=0.1, help="total variation that must not be missed (default 0.1)"
    )
    engine.add_argument("--prefixes", type=int, default=8, help="prefixes that are repeated (default 8)")
    engine.add_argument(
        "--draws", type=int, default=128, help="texts drawn after each of them (default 128; 0 for none)"
    )
    engine.add_argument("--exact", action="store_true", help="enumerate a tiny transformer's engine")
    engine.add_argument(
        "--params", default="filters", help="filters (default), or text: penalties, bans and all that looks at it"
    )
    engine.add_argument("--architecture", default="llama", help="llama (default), qwen2, qwen3 or gpt2")
    engine.add_argument("--mutants", action="store_true", help="audit engines with a planted fault as well")
    add_answer_flags(engine)
    defaults = {action.dest: action.default for action in engine._actions}
    engine.set_defaults(run=partial(run_engine, defaults))


def run_engine(defaults: dict[str, Any], args: argparse.Namespace) -> int:
    """One of the two audits; flags of the other are refused."""
    for name, default in defaults.items():
        foreign = name not in (*_EXACT, *_BOTH) if args.exact else name in _EXACT
        if foreign and getattr(args, name) != default:
            flag = "--" + name.replace("_", "-")
            raise SpecproofError(
                f"{flag} does nothing {'with' if args.exact else 'without'} --exact: leave it out"
            )
    if args.rule is not None and (args.exact or args.rule != "auto"):
        _check_rule(args.rule)
    return _run_exact(args) if args.exact else _run_white(args)


def _check_rule(name: str) -> None:
    from specproof.rules import RULES, find_rule

    if name.partition(":")[0] not in RULES:
        raise unknown("rule", name, RULES)
    if not find_rule(name).usable:
        raise SpecproofError(f"rule {name!r} is for audits of rules only: specproof audit rule {name}")


def _run_white(args: argparse.Namespace) -> int:
    """Audit the engine on a model."""
    prepare_torch(args)
    from specproof.audit.prompts import PROMPTS
    from specproof.audit.white.plan import Plan
    from specproof.audit.white.run import audit_white
    from specproof.engine.loading import chat_tokens, load_engine

    length = 64 if args.max_tokens is None else args.max_tokens
    check_html(args)
    plan = Plan(
        args.alpha,
        args.tokens,
        length,
        detect=args.detect,
        seed=args.seed or 0,
        prefixes=args.prefixes,
        draws=args.draws,
    )
    args.max_tokens = length
    params = sampling_from(args)
    engine = load_engine(
        args.model,
        drafter=args.drafter or "ngram",
        draft_model=args.draft_model,
        rule=args.rule or "auto",
        dtype=args.dtype,
        device=args.device,
        max_batch=plan.at_once,
        allow_lossy=True,
        # A drafter that does not pay has to be exercised all the same.
        adaptive=False,
    )
    prompts = [chat_tokens(engine.tokenizer, text) for text in args.prompt or PROMPTS]
    result = audit_white(
        engine,
        prompts,
        params,
        plan,
        announce=lambda line: print(line, file=sys.stderr, flush=True),
        replay=replay_command(),
    )
    return give(result.answer(), args, result)


def _run_exact(args: argparse.Namespace) -> int:
    """Audit the engine over rules, drafters and sampling parameters."""
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
