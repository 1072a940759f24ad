"""`specproof train`: a draft head for a model, from texts that the model writes itself."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from specproof.cli.flags import add_model_flags, prepare_torch

_READ: dict[str, Any] = {"int": int, "float": float, "str": str}


def add_parser(subparsers: Any) -> None:
    """Register the command, unless this installation has been cut down to do without."""
    if find_spec("specproof.train") is None:
        return
    from specproof.train.settings import TrainSettings

    parser = subparsers.add_parser(
        "train",
        help="train an EAGLE-3 head, or Medusa heads, to draft for a model",
        description="Let a model write texts, train an EAGLE-3 head (or Medusa heads) on them, and say how much "
        "of its drafts the model accepts on held-out ones. Run again after a stop, it goes on where it was. The "
        "head is in the speculators format: specproof generate --drafter eagle3 --draft-model OUT, or vLLM.",
        allow_abbrev=False,
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of the head; made if it is not there")
    add_model_flags(parser)
    group = parser.add_argument_group("training")
    group.add_argument(
        "--prompts",
        type=Path,
        default=None,
        help="file, one prompt a line (default: 574 built in)",
        metavar="FILE",
    )
    group.add_argument(
        "--memory",
        type=float,
        default=4.0,
        help="GiB for what the model says about the texts, so that it is asked once (default 4)",
        metavar="N",
    )
    for name, kind, default, text in TrainSettings.flags():
        read = _READ[kind]
        group.add_argument(
            "--" + name.replace("_", "-"),
            type=read,
            default=default,
            help=f"{text} (default {default})",
            metavar="NAME" if read is str else "N",
        )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train, with a progress bar; prints the evaluation."""
    from specproof.train.settings import TrainSettings

    names = [name for name, *_ in TrainSettings.flags()]
    settings = TrainSettings(**{name: getattr(args, name) for name in names})
    prepare_torch(args)
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from specproof.train.run import Job, train

    console = Console(stderr=True, highlight=False)
    columns = (
        TextColumn("{task.description:8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[said]}"),
    )
    job = Job(args.model, args.out, args.prompts, args.dtype, args.device, args.memory)
    with Progress(*columns, console=console) as progress:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int, said: str) -> None:
            if stage == "held out":
                console.print(f"update {done}: {said}", style="dim")
                return
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total, said="")
            progress.update(tasks[stage], completed=done, said=said)

        result = train(job, settings, report)
    print(result)
    print(f"the head is in {args.out}: specproof generate --drafter {settings.method} --draft-model {args.out}")
    return 0
