"""`specproof rollout`: samples of many prompts, with log-probabilities, in files; by one process or by Ray."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specproof.cli.flags import (
    add_model_flags,
    add_sampling_flags,
    add_speculation_flags,
    prepare_torch,
    sampling_from,
)
from specproof.errors import SpecproofError

if TYPE_CHECKING:
    from specproof.rollout.folder import RunFolder
    from specproof.rollout.run import Job, Shard

_TOGETHER = 64  # trajectories in a file, unless told otherwise


def add_parser(subparsers: Any) -> None:
    """Register the command, unless this installation has been cut down to do without."""
    if find_spec("specproof.rollout") is None:
        return
    parser = subparsers.add_parser(
        "rollout",
        help="sample many prompts into files, for reinforcement learning",
        description="Sample prompts and write tokens, log-probabilities and statistics as Parquet. What comes out "
        "hangs on prompts, flags and seed, not on how many processes draw it. Run again after a stop, it goes on "
        "where it was.",
        allow_abbrev=False,
    )
    parser.add_argument("--prompts", type=Path, required=True, help="JSONL, one prompt a line", metavar="FILE")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run; made if it is not there")
    parser.add_argument("--samples", type=int, default=1, help="of each prompt (default 1)", metavar="N")
    add_model_flags(parser)
    add_speculation_flags(parser)
    add_sampling_flags(parser)
    group = parser.add_argument_group("work")
    add = group.add_argument
    add("--max-batch", type=int, default=16, help="most texts in one forward (default 16)", metavar="N")
    text = f"prompts in a file (default: as many as give {_TOGETHER} samples)"
    add("--shard", type=int, default=None, help=text, metavar="N")
    text = "draw with Ray: an address, 'auto', or 'local' (default): a Ray of this run's own"
    add("--ray", nargs="?", const="local", default=None, help=text, metavar="ADDRESS")
    add(
        "--workers",
        type=int,
        default=None,
        help="with --ray: processes, each with the model (default 1)",
        metavar="N",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Draw what is missing; exit code 1 if a trajectory ended with an error."""
    _check(args)
    params = sampling_from(args)
    if params.n != 1:
        raise SpecproofError(f"--n {params.n} is not for rollouts: give --samples {params.n}")
    prepare_torch(args)
    from specproof.rollout.folder import opened

    job = _job(args, params)
    with opened(args.out, job.settings(), job.shards) as folder:
        missing = folder.missing()
        failed = _draw(folder, _drawn(args, job, missing), job) if missing else 0
    print(f"{len(job.prompts) * job.samples} trajectories in {job.shards} files in {args.out}")
    return int(failed > 0)


def _check(args: argparse.Namespace) -> None:
    for name in ("samples", "max_batch", "shard", "workers"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise SpecproofError(f"--{name.replace('_', '-')} {value} is not allowed: give 1 or more")
    if args.draft_shape == "sequoia":
        raise SpecproofError(
            "--draft-shape sequoia measures anew in each process: give the shape that it measured"
        )
    if args.workers is not None and args.ray is None:
        raise SpecproofError("--workers needs Ray: add --ray, or leave it out")
    if find_spec("pyarrow") is None:
        raise SpecproofError("pyarrow is not installed: pip install 'specproof[rollout]'")
    if args.ray is not None and find_spec("ray") is None:
        raise SpecproofError("ray is not installed: pip install 'specproof[ray]'")


def _job(args: argparse.Namespace, params: Any) -> Job:
    from secrets import randbits

    from specproof.engine.heads import default_drafter
    from specproof.engine.loading import load_tokenizer
    from specproof.rollout.folder import read_settings
    from specproof.rollout.prompts import read_prompts
    from specproof.rollout.run import Job

    if params.seed is None:  # a run that goes on has the seed that it began with
        before = read_settings(args.out) or {}
        params = replace(params, seed=before.get("params", {}).get("seed", randbits(63)))
    return Job(
        prompts=read_prompts(args.prompts, load_tokenizer(args.model)),
        params=params,
        samples=args.samples,
        size=args.shard or max(1, _TOGETHER // args.samples),
        model={
            "model": args.model,
            "drafter": default_drafter(args.model) if args.drafter == "auto" else args.drafter,
            "draft_model": args.draft_model,
            "vocabulary": args.draft_vocabulary,
            "shape": args.draft_shape,
            "rule": args.rule,
            "dtype": args.dtype,
            "allow_lossy": args.allow_lossy,
            "adaptive": not args.no_adaptive,
        },
        pace={"device": args.device, "max_batch": args.max_batch},
    )


def _drawn(args: argparse.Namespace, job: Job, missing: list[int]) -> Iterator[Shard]:
    if args.ray is None:
        from specproof.rollout.run import drawn_here

        return drawn_here(job, missing)
    from specproof.rollout.spread import drawn_by_ray

    return drawn_by_ray(job, missing, args.ray, args.workers or 1, args.threads or 1)


def _draw(folder: RunFolder, shards: Iterator[Shard], job: Job) -> int:
    """Write shards as they come, under a progress bar; returns how many trajectories ended with an error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    total = len(job.prompts) * job.samples
    tokens = forwards = drafted = accepted = failed = 0
    alarm = None
    with Progress(*columns, console=console) as progress:
        left = sum(len(job.tasks(number)) for number in folder.missing())
        bar = progress.add_task("", total=total, completed=total - left)
        for shard in shards:
            folder.add(shard.number, shard.content, shard.weights)
            tokens, forwards = tokens + shard.tokens, forwards + shard.forwards
            drafted, accepted = drafted + shard.drafted, accepted + shard.accepted
            if shard.error is not None and not failed:
                console.print(f"specproof: a trajectory ended with an error: {shard.error}", soft_wrap=True)
            if shard.alarm is not None and shard.alarm != alarm:
                console.print(f"specproof: {shard.alarm}", soft_wrap=True)
            failed, alarm = failed + shard.failed, shard.alarm
            said = (
                f"{tokens / max(1, forwards):.2f} tokens per forward, acceptance {accepted / max(1, drafted):.2f}"
            )
            progress.update(bar, advance=shard.trajectories, description=said)
    if failed:
        console.print(f"specproof: {failed} trajectories ended with an error (finish_reason 'error')")
    return failed
