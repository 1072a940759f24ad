"""`specproof generate`: complete prompts, streamed, with speculation on unless told otherwise."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from specproof.cli.flags import (
    add_model_flags,
    add_sampling_flags,
    add_speculation_flags,
    engine_from,
    prepare_torch,
    sampling_from,
)
from specproof.errors import SpecproofError

if TYPE_CHECKING:
    from specproof.engine.engine import Engine
    from specproof.engine.requests import Result
    from specproof.engine.stats import Statistics
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
    add_speculation_flags(parser)
    add_sampling_flags(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--raw", action="store_true", help="give the prompt as it is, without the chat format")
    group.add_argument("--json", action="store_true", help="one JSON document with texts, tokens and statistics")
    group.add_argument("--stats", action="store_true", help="print statistics after each text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load, complete, print."""
    params = sampling_from(args)
    if not args.json and (params.logprobs is not None or params.prompt_logprobs is not None):
        raise SpecproofError("log-probabilities have no place in plain text: add --json to --logprobs")
    texts = [sys.stdin.read().removesuffix("\n") if text == "-" else text for text in args.prompts]
    prepare_torch(args)
    engine = engine_from(args)
    prompts = [_prompt(engine, text, args.raw) for text in texts]
    if args.json:
        results = engine.generate(prompts, params)
        print(json.dumps(_document(args, params, results), ensure_ascii=False, indent=2))
        return _failed(results)
    code = 0
    for number, prompt in enumerate(prompts):
        if len(prompts) > 1:
            print(f"{'' if number == 0 else chr(10)}[{number + 1}/{len(prompts)}] {texts[number]}")
        results = [_stream(engine, prompt, params)] if params.n == 1 else _several(engine, prompt, params)
        for result in results:
            for line in result.warnings + ((result.error,) if result.error else ()):
                print(f"specproof: {line}", file=sys.stderr)
            if args.stats:
                _print_stats(result)
        code = max(code, _failed(results))
    return code


def _failed(results: list[Result]) -> int:
    """Exit code: 1 if a text could not be finished."""
    return int(any(result.error for result in results))


def _prompt(engine: Engine, text: str, raw: bool) -> Any:
    from specproof.engine.loading import chat_tokens

    # An empty message is no prompt either, though its chat format has tokens.
    return text if raw or not text.strip() else chat_tokens(engine.tokenizer, text)


def _stream(engine: Engine, prompt: Any, params: SamplingParams) -> Result:
    for result in engine.stream(prompt, params):
        print(result.delta, end="", flush=True)
    print()
    return result


def _several(engine: Engine, prompt: Any, params: SamplingParams) -> list[Result]:
    """All completions of a prompt when they are done: as streams they would run into one another."""
    results = engine.generate([prompt], params)
    for result in results:
        print(f"({result.index + 1} of {params.n}) {result.text}")
    return results


def _print_stats(result: Result) -> None:
    from rich.console import Console

    stats = result.stats
    depths = _listed({depth: f"{share:.2f}" for depth, share in stats.acceptance_by_depth.items()})
    given = _listed({depth: f"{share:.2f}" for depth, share in stats.conditional_by_depth.items()})
    ranks = _listed({rank: f"{share:.2f}" for rank, share in stats.acceptance_by_rank.items()})
    speed = stats.tokens / stats.seconds if stats.seconds else 0.0
    lines = [
        f"{stats.tokens} tokens in {stats.steps} forwards: {stats.tokens_per_forward:.2f} tokens per forward, "
        f"{speed:.1f} tokens/s, finish reason {result.finish_reason}",
        f"acceptance {stats.acceptance:.2f} ({stats.accepted} of {stats.drafted} drafted)",
        f"acceptance by depth  {depths}",
        f"by rank of siblings  {ranks}",
        f"given the one before {given}",
        f"steps by accepted nodes  {_listed(stats.histogram)}; by allowed nodes  {_listed(stats.chosen)}",
        f"steps without a draft  {_listed(stats.unspeculated)}",
        f"seconds: draft {stats.draft_seconds:.2f}, forward {stats.forward_seconds:.2f}, "
        f"verify {stats.verify_seconds:.2f}",
        *_speedups(stats),
        f"rule {result.rule} ({'lossless' if result.lossless else 'LOSSY'}), seed {result.seed}",
    ]
    console = Console(stderr=True, highlight=False)
    for line in lines:
        console.print(line, style="dim")


def _listed(values: Mapping[Any, Any]) -> str:
    return "  ".join(f"{key}: {value}" for key, value in sorted(values.items())) or "-"


def _speedups(stats: Statistics) -> list[str]:
    if stats.measured_speedup is None or stats.predicted_speedup is None:
        return []
    return [
        f"speed-up over plain steps {stats.measured_speedup:.2f}, predicted {stats.predicted_speedup:.2f} "
        f"({stats.priced_seconds:.2f} s of the steps)"
    ]


def _document(args: argparse.Namespace, params: SamplingParams, results: list[Result]) -> dict[str, Any]:
    from dataclasses import asdict

    from specproof import __version__

    return {
        "specproof": __version__,
        "model": args.model,
        "dtype": args.dtype,
        "drafter": args.drafter,
        "draft_model": args.draft_model,
        "draft_vocabulary": args.draft_vocabulary,
        "draft_shape": args.draft_shape,
        "adaptive": not args.no_adaptive,
        "params": asdict(params),
        "results": [result.as_dict() for result in results],
    }
