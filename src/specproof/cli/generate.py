"""`specproof generate`: complete prompts, streamed, with speculation on unless told otherwise."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from specproof.cli.flags import add_model_flags, add_sampling_flags, prepare_torch, sampling_from

if TYPE_CHECKING:
    from specproof.engine.engine import Engine
    from specproof.engine.requests import Result
    from specproof.types import SamplingParams


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "generate",
        help="complete prompts with a model",
        description="Complete prompts. The text follows the model's law exactly, whatever the drafter.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "prompts", nargs="+", metavar="PROMPT", help="text of a prompt; '-' reads it from the input"
    )
    add_model_flags(parser)
    group = parser.add_argument_group("speculation")
    group.add_argument(
        "--drafter",
        default="auto",
        help="none, ngram, model, eagle3, or auto (default): eagle3 where a head comes with the model, else ngram",
        metavar="NAME",
    )
    group.add_argument(
        "--draft-model", default=None, help="folder or name of the smaller model, or of the head", metavar="NAME"
    )
    group.add_argument(
        "--rule",
        default="auto",
        help="verification rule, with numbers as in lenience:0.5, or auto",
        metavar="NAME",
    )
    group.add_argument(
        "--allow-lossy", action="store_true", help="take a rule that changes the model's law; results say so"
    )
    add_sampling_flags(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--raw", action="store_true", help="give the prompt as it is, without the chat format")
    group.add_argument("--json", action="store_true", help="one JSON document with texts, tokens and statistics")
    group.add_argument("--stats", action="store_true", help="print statistics after each text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load, complete, print."""
    params = sampling_from(args)
    texts = [sys.stdin.read().removesuffix("\n") if text == "-" else text for text in args.prompts]
    prepare_torch(args)
    args.drafter = _drafter(args)
    engine = _engine(args)
    prompts = [_prompt(engine, text, args.raw) for text in texts]
    if args.json:
        results = engine.generate(prompts, params)
        print(json.dumps(_document(args, params, results), ensure_ascii=False, indent=2))
        return 0
    for number, prompt in enumerate(prompts):
        if len(prompts) > 1:
            print(f"{'' if number == 0 else chr(10)}[{number + 1}/{len(prompts)}] {texts[number]}")
        result = _stream(engine, prompt, params)
        if args.stats:
            _print_stats(result)
    return 0


def _drafter(args: argparse.Namespace) -> str:
    from specproof.engine.heads import default_drafter

    return default_drafter(args.model) if args.drafter == "auto" else str(args.drafter)


def _engine(args: argparse.Namespace) -> Engine:
    from specproof.engine.loading import load_engine

    return load_engine(
        args.model,
        drafter=args.drafter,
        draft_model=args.draft_model,
        rule=args.rule,
        dtype=args.dtype,
        device=args.device,
        allow_lossy=args.allow_lossy,
    )


def _prompt(engine: Engine, text: str, raw: bool) -> Any:
    from specproof.engine.loading import chat_tokens

    # An empty message is no prompt either, though its chat format has tokens.
    return text if raw or not text.strip() else chat_tokens(engine.tokenizer, text)


def _stream(engine: Engine, prompt: Any, params: SamplingParams) -> Result:
    for result in engine.stream(prompt, params):
        print(result.delta, end="", flush=True)
    print()
    return result


def _print_stats(result: Result) -> None:
    from rich.console import Console

    stats = result.stats
    depths = "  ".join(f"{depth}: {share:.2f}" for depth, share in stats.acceptance_by_depth.items())
    speed = stats.tokens / stats.seconds if stats.seconds else 0.0
    lines = [
        f"{stats.tokens} tokens in {stats.steps} forwards: {stats.tokens_per_forward:.2f} tokens per forward, "
        f"{speed:.1f} tokens/s, finish reason {result.finish_reason}",
        f"acceptance {stats.acceptance:.2f} ({stats.accepted} of {stats.drafted} drafted)",
        f"acceptance by depth  {depths or '-'}",
        f"seconds: draft {stats.draft_seconds:.2f}, forward {stats.forward_seconds:.2f}, "
        f"verify {stats.verify_seconds:.2f}",
        f"rule {result.rule} ({'lossless' if result.lossless else 'LOSSY'}), seed {result.seed}",
    ]
    console = Console(stderr=True, highlight=False)
    for line in lines:
        console.print(line, style="dim")


def _document(args: argparse.Namespace, params: SamplingParams, results: list[Result]) -> dict[str, Any]:
    from dataclasses import asdict

    from specproof import __version__

    return {
        "specproof": __version__,
        "model": args.model,
        "dtype": args.dtype,
        "drafter": args.drafter,
        "draft_model": args.draft_model,
        "params": asdict(params),
        "results": [result.as_dict() for result in results],
    }
