"""`specproof audit transformers`: transformers' own `generate`, in this process."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from specproof.cli.answers import EXIT_CODES, add_answer_flags, check_html, give, replay_command
from specproof.cli.flags import add_model_flags, add_sampling_flags, prepare_torch, sampling_from
from specproof.errors import SpecproofError

if TYPE_CHECKING:
    from specproof.audit.generate.ways import Way

_WAYS = ("assistant", "prompt_lookup", "early_exit", "custom_generate")


def add_parser(kinds: Any) -> None:
    """Register the command."""
    parser = kinds.add_parser(
        "transformers",
        help="transformers' own generate, however it speculates",
        description="Run transformers' generate with speculation and without, score every token again from the "
        "text alone, and test it against the model's own law, in running text and after repeated prefixes. A "
        "lossless one is called biased at most at rate --alpha. " + EXIT_CODES,
        allow_abbrev=False,
        conflict_handler="resolve",
    )
    add_model_flags(parser)
    ways = parser.add_argument_group("speculation (one of them)").add_argument
    ways("--assistant", default=None, help="folder or name of a smaller model with the same tokens", metavar="DIR")
    ways("--prompt-lookup", type=int, default=None, help="tokens that are looked up in the text", metavar="N")
    ways("--early-exit", type=int, default=None, help="draft with the first N layers", metavar="N")
    ways("--custom-generate", default=None, help="a decoding loop, as in package.module:function", metavar="NAME")
    ways(
        "--draft-model", default=None, help="with --custom-generate: bets get its rows and see more", metavar="DIR"
    )
    ways("--options", type=json.loads, default={}, help="further arguments of generate", metavar="JSON")
    add_sampling_flags(parser)
    add = parser.add_argument
    add("--max-tokens", type=int, default=64, help="most tokens of a text (default 64)", metavar="N")
    add("--prompt", action="append", default=[], help="may be repeated (default: twenty)")
    add("--tokens", type=int, default=4096, help="most tokens of running text (default 4096)", metavar="N")
    add("--prefixes", type=int, default=8, help="prefixes that are repeated (default 8)", metavar="N")
    add("--draws", type=int, default=128, help="texts after each of them (default 128; 0 for none)", metavar="N")
    add("--alpha", type=float, default=1e-3, help="rate of false alarms (default 0.001)", metavar="N")
    add("--detect", type=float, default=0.1, help="total variation that must not be missed (default 0.1)")
    add_answer_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load, run, report."""
    given = [name for name in _WAYS if getattr(args, name) is not None]
    if len(given) != 1:
        flags = ", ".join("--" + name.replace("_", "-") for name in _WAYS)
        raise SpecproofError(f"{len(given)} ways to speculate were given; give one of {flags}")
    if args.draft_model is not None and args.custom_generate is None:
        raise SpecproofError("--draft-model is for --custom-generate; other ways know what they draft from")
    if not isinstance(args.options, dict):
        raise SpecproofError(f"--options {args.options!r} is no JSON object, as in '{{\"seed\": 1}}'")
    check_html(args)
    prepare_torch(args)
    from specproof.audit.generate.run import audit_generate
    from specproof.audit.prompts import PROMPTS
    from specproof.audit.white.plan import Plan
    from specproof.engine.loading import chat_tokens, load_model, load_tokenizer

    plan = Plan(
        args.alpha,
        args.tokens,
        args.max_tokens,
        detect=args.detect,
        seed=args.seed or 0,
        prefixes=args.prefixes,
        draws=args.draws,
    )
    model, tokenizer = load_model(args.model, args.dtype, args.device), load_tokenizer(args.model)
    result = audit_generate(
        model,
        _way(args, model),
        [chat_tokens(tokenizer, text) for text in args.prompt or PROMPTS],
        sampling_from(args),
        plan,
        tokenizer=tokenizer,
        announce=lambda line: print(line, file=sys.stderr, flush=True),
        replay=replay_command(),
    )
    return give(result.answer(), args, result)


def _way(args: argparse.Namespace, model: Any) -> Way:
    from dataclasses import replace

    from specproof.audit.generate import ways
    from specproof.engine.loading import load_model

    if args.custom_generate is not None:
        folder = args.draft_model
        draft = None if folder is None else load_model(folder, args.dtype, args.device)
        return ways.custom(_function(args.custom_generate), args.options, draft)
    if args.assistant is not None:
        way = ways.assistant(load_model(args.assistant, args.dtype, args.device))
    elif args.prompt_lookup is not None:
        way = ways.prompt_lookup(model, args.prompt_lookup)
    else:
        way = ways.early_exit(model, args.early_exit)
    return replace(way, options={**way.options, **args.options})


def _function(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SpecproofError(
            f"--custom-generate {name}: {error}; name one as in package.module:function"
        ) from error
