"""`specproof bench`: is speculation worth it here, with whom, and what does a training step gain from it?"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specproof.cli.flags import add_model_flags, prepare_torch, write_file
from specproof.errors import SpecproofError

if TYPE_CHECKING:
    from specproof.bench.prompts import Prompt
    from specproof.bench.run import BenchResult

_PLAN = ("generation_share", "speedup", "tokens_per_forward", "step_seconds", "measured")


def add_parser(subparsers: Any) -> None:
    """Register the command, unless this installation has been cut down to do without."""
    if find_spec("specproof.bench") is None:
        return
    parser = subparsers.add_parser(
        "bench",
        help="measure drafters side by side, and say whether speculation pays here",
        description="Decode prompts of several kinds plainly and with each drafter, taking turns in one run, and "
        "say what each gains: speed, tokens per forward, acceptance by depth, what a cost model predicts, and "
        "advice. Texts at temperature 0 have to be those of plain decoding; if one is not, the exit code is 1. "
        "With --rl: what a training step gains from faster generation; measures nothing.",
        allow_abbrev=False,
    )
    add_model_flags(parser)
    _add_measuring(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--json", type=Path, default=None, help="write all figures to FILE", metavar="FILE")
    group.add_argument("--html", type=Path, default=None, help="write a page with charts to FILE", metavar="FILE")
    _add_planning(parser)
    parser.set_defaults(run=run)


def _add_measuring(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("measuring")
    group.add_argument(
        "--drafter",
        default=None,
        help="drafters with commas between them, NAME=FOLDER for a draft model or head, NAME@SHAPE for "
        "another shape than its own, such as chain:3, dynamic:8 (default: ngram, "
        "suffix, early_exit, eagle3 and hybrid if a head comes with the model); plain decoding is always there",
        metavar="NAMES",
    )
    group.add_argument("--no-adaptive", action="store_true", help="draft the full length in every step")
    group.add_argument(
        "--prompts",
        type=Path,
        default=None,
        help='file of JSON lines {"kind": …, "prompt": …} or of plain lines (default: 18 of six kinds)',
        metavar="FILE",
    )
    group.add_argument(
        "--per-kind", type=int, default=None, help="first prompts of each kind (default all)", metavar="N"
    )
    group.add_argument("--temperature", default="0,1", help="with commas between them (default 0,1)", metavar="N")
    group.add_argument("--max-tokens", type=int, default=64, help="of an answer (default 64)", metavar="N")
    group.add_argument("--repeats", type=int, default=3, help="turns; medians count (default 3)", metavar="N")
    group.add_argument("--seed", type=int, default=0, help="of texts above temperature 0 (default 0)", metavar="N")


def _add_planning(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("planning a training step")
    group.add_argument("--rl", action="store_true", help="plan a step of reinforcement learning instead")
    texts = {
        "generation_share": "seconds of plain generation / seconds of the step",
        "speedup": "of generation, as measured",
        "tokens_per_forward": "as measured; gives an upper bound",
        "step_seconds": "of the step with plain generation, to print seconds too",
    }
    for name, text in texts.items():
        group.add_argument("--" + name.replace("_", "-"), type=float, default=None, help=text, metavar="N")
    group.add_argument(
        "--measured", type=Path, default=None, help="take both from the --json FILE of a bench", metavar="FILE"
    )


def run(args: argparse.Namespace) -> int:
    """Measure and print, or plan."""
    if args.rl:
        return _plan(args)
    if given := [name for name in _PLAN if getattr(args, name) is not None]:
        raise SpecproofError(f"--{given[0].replace('_', '-')} plans a training step: add --rl")
    for flag, path in (("--json", args.json), ("--html", args.html)):
        if path is not None and not path.parent.is_dir():  # not after minutes of measuring
            raise SpecproofError(f"cannot write {flag} {path}: no such folder; name a file in an existing folder")
    result = _measure(args, _settings(args), _prompts(args))
    from rich.console import Console

    from specproof.cli.bench_table import print_result

    # Tables in a file or a pipe need not be as narrow as a terminal.
    print_result(Console(highlight=False, width=None if sys.stdout.isatty() else 110), result)
    if args.json is not None:
        write_file("--json", args.json, json.dumps(result.as_dict(), ensure_ascii=False, indent=2) + "\n")
    if args.html is not None:
        from specproof.cli.bench_picture import page

        write_file("--html", args.html, page(result))
    return 0 if result.ok else 1


def _measure(args: argparse.Namespace, settings: Any, prompts: list[Prompt]) -> BenchResult:
    """With a progress bar on the error stream."""
    prepare_torch(args)
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from specproof.bench.run import bench, provenance
    from specproof.bench.ways import load_ways

    drafters = None if args.drafter is None else [name.strip() for name in args.drafter.split(",")]
    loaded = load_ways(args.model, drafters, dtype=args.dtype, device=args.device)
    counts: dict[str, int] = {}
    for prompt in prompts:
        counts[prompt.kind] = counts.get(prompt.kind, 0) + 1
    source = "built in" if args.prompts is None else str(args.prompts)
    made = provenance(shlex.join(["specproof", *sys.argv[1:]]), loaded, args.model, source, settings, counts)
    columns = (TextColumn("texts"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("texts")

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)
            # A bar is only drawn on a terminal; who reads a log wants to know how far it is, too.
            if not console.is_terminal and 10 * done // total > 10 * (done - 1) // total:
                print(f"{done} of {total} texts", file=sys.stderr, flush=True)

        return bench(loaded, prompts, settings, made, report=report)


def _settings(args: argparse.Namespace) -> Any:
    from specproof.bench.measure import BenchSettings

    try:
        temperatures = tuple(float(text) for text in args.temperature.split(","))
    except ValueError as error:
        raise SpecproofError(
            f"--temperature {args.temperature!r} is not allowed: give numbers as in 0,0.7"
        ) from error
    return BenchSettings(temperatures, args.max_tokens, args.repeats, not args.no_adaptive, args.seed)


def _prompts(args: argparse.Namespace) -> list[Prompt]:
    from specproof.bench.prompts import built_in_prompts, first_of_each, read_prompts

    prompts = built_in_prompts() if args.prompts is None else read_prompts(args.prompts)
    if args.per_kind is None:
        return prompts
    if args.per_kind < 1:
        raise SpecproofError(f"--per-kind {args.per_kind} is not allowed: give a whole number >= 1")
    return first_of_each(prompts, args.per_kind)


def _plan(args: argparse.Namespace) -> int:
    from specproof.bench.rl import StepPlan, plans_from

    if args.generation_share is None:
        raise SpecproofError(
            "--rl needs --generation-share: seconds of plain generation / seconds of the step, 0 to 1"
        )
    if args.html is not None:
        raise SpecproofError("--rl draws nothing: give --json FILE, or leave --html out")
    if args.measured is None:
        plan = StepPlan(args.generation_share, args.tokens_per_forward, args.speedup, args.step_seconds)
        plans = {"": plan}
    elif args.speedup is not None or args.tokens_per_forward is not None:
        raise SpecproofError("--measured has its own figures: leave --speedup and --tokens-per-forward out")
    else:
        plans = plans_from(args.measured, args.generation_share, args.step_seconds)
    print("\n\n".join(f"{name}\n{plan}" if name else str(plan) for name, plan in plans.items()))
    if args.json is not None:
        document = [{"way": name} | plan.as_dict() if name else plan.as_dict() for name, plan in plans.items()]
        write_file("--json", args.json, json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    return 0
