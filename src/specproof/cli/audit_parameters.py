"""`specproof audit parameters`: the law under every pair of sampling parameters, with speculation and without."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from specproof.cli.answers import EXIT_CODES, add_answer_flags, check_html, give, replay_command
from specproof.cli.flags import add_model_flags, prepare_torch

# They repeat themselves, so that lookups find something, and penalties have something to count.
PROMPTS = (
    "Repeat exactly: the quick brown fox jumps over the lazy dog, the quick brown fox jumps over the lazy dog.",
    "one two three, one two three, one two",
)


def add_parser(kinds: Any) -> None:
    """Register the command."""
    parser = kinds.add_parser(
        "parameters",
        help="sampling parameters: the same law with speculation as without, every pair of them",
        description="Under settings in which every pair of values of two sampling parameters occurs: the law of "
        "all texts of a tiny model, summed exactly, and the rows that a real model's tokens are judged by, after "
        f"every drafted path, against transformers' own processors applied one row at a time. {EXIT_CODES}",
        epilog="example: specproof audit parameters --engine transformers --tiny",
        allow_abbrev=False,
    )
    add_model_flags(parser)
    parser.add_argument(
        "--engine", default="specproof", metavar="NAME", help="specproof (default), or transformers' generate"
    )
    parser.add_argument("--tiny", action="store_true", help="on tiny models only; no model is loaded")
    add_answer_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Audit the parameters; the exit code is the verdict's."""
    check_html(args)
    prepare_torch(args)
    from specproof.audit.parameters.run import ENGINES, Loaded, audit_parameters
    from specproof.engine.loading import end_tokens, load_model, load_tokenizer
    from specproof.errors import SpecproofError, unknown

    if args.engine not in ENGINES:
        raise unknown("engine", args.engine, ENGINES)
    loaded = None
    if args.tiny and args.model != "default":
        raise SpecproofError(f"--tiny loads no model: leave out --model {args.model}, or --tiny")
    if not args.tiny:
        model, tokenizer = load_model(args.model, args.dtype, args.device), load_tokenizer(args.model)
        prompts = [list(tokenizer(text)["input_ids"]) for text in PROMPTS]
        loaded = Loaded(args.model, model, prompts, sorted(end_tokens(model, tokenizer)))
    result = audit_parameters(
        args.engine,
        loaded,
        announce=lambda line: print(line, file=sys.stderr, flush=True),
        replay=replay_command(),
    )
    return give(result.answer, args)
