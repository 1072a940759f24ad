"""Two epochs of rollouts on a real model, its weights nudged in between: what drafting the first again gains.

The first epoch is rolled out under rule "coupling", whose texts its seeds can be given to again. Then every weight
matrix is moved at random, relative to its entries, and the same prompts are rolled out in every way, one after the
other. Tokens per forward and acceptance do not hang on the machine; seconds do, and only their ratios in one run
say anything.

    python benchmarks/replay.py [--model NAME] [--moved 0.005] [--samples 2] [--max-tokens 64] [--budget N]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import torch

from specproof.audit.prompts import PROMPTS
from specproof.backends.hf import HFBackend
from specproof.drafters.past import Past, save_pasts
from specproof.drafters.replay import ReplayDrafter
from specproof.engine.engine import Engine
from specproof.engine.loading import chat_tokens, end_tokens, load_model, load_tokenizer
from specproof.rollout.replay import remember, tokens_of
from specproof.rollout.trajectory import Trajectory
from specproof.rollout.worker import RolloutWorker
from specproof.types import SamplingParams


class Way(NamedTuple):
    """How the second epoch is written: rule, whether it drafts, with rows, and with the first epoch's seeds."""

    name: str
    rule: str
    drafts: bool = True
    rows: bool = False
    same_seeds: bool = False


WAYS = (
    Way("no draft", "rejection", drafts=False),
    Way("rows, rejection", "rejection", rows=True),
    Way("rows, block", "block", rows=True),
    Way("same noise, coupling", "coupling", same_seeds=True),
    Way("points, walk", "walk"),
    Way("published, lenience 1", "spec_rl:1", rows=True),
    Way("published, lenience 2", "spec_rl:2", rows=True),
)


class Written(NamedTuple):
    """A way's epoch."""

    way: Way
    trajectories: list[Trajectory]
    seconds: float

    @property
    def figures(self) -> tuple[int, float, float, float]:
        """Tokens, tokens per forward, accepted / drafted, and the share of tokens that are reused."""
        tokens = sum(len(one.completion_ids) for one in self.trajectories)
        forwards, drafted, accepted = (
            sum(getattr(one, name) for one in self.trajectories) for name in ("forwards", "drafted", "accepted")
        )
        return tokens, tokens / forwards, accepted / drafted if drafted else 0.0, accepted / tokens


@torch.no_grad()
def nudge(model: Any, moved: float, seed: int = 0) -> None:
    """Multiply every entry of every matrix by 1 + moved x normal noise."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.mul_(1 + moved * torch.randn(parameter.shape, generator=generator))


def epochs(args: argparse.Namespace) -> tuple[Iterator[Written], list[Past], float]:
    """The second epoch in every way, the first epoch's texts, and how far apart the two policies are."""
    model, tokenizer = load_model(args.model), load_tokenizer(args.model)
    ends = end_tokens(model, tokenizer)
    prompts = [chat_tokens(tokenizer, text) for text in PROMPTS[: args.prompts]]
    params = SamplingParams(temperature=args.temperature, max_tokens=args.max_tokens, seed=args.seed)
    first = Engine(HFBackend(model), "none", "coupling", eos=ends)
    trajectories = RolloutWorker(first).rollout(prompts, params, args.samples)
    pasts = list(remember(first, trajectories, args.most))
    before = _told(trajectories)
    nudge(model, args.moved)
    # Log-probabilities of the same tokens under both policies.
    apart = _told_again(first, trajectories)
    distance = sum(abs(a - b) for a, b in zip(before, apart, strict=True)) / len(before) / 2

    def ways() -> Iterator[Written]:
        for way in WAYS:
            own = pasts if way.rows else list(tokens_of(trajectories))
            target = HFBackend(model)
            drafter = ReplayDrafter(own, target.vocabulary, rows=way.rows) if way.drafts else "none"
            options = {"budget": args.budget or args.max_tokens, "max_batch": args.max_batch}
            engine = Engine(target, drafter, way.rule, eos=ends, adaptive=False, allow_lossy=True, **options)
            seed = args.seed if way.same_seeds else args.seed + 1
            started = perf_counter()
            found = RolloutWorker(engine).rollout(prompts, replace(params, seed=seed), args.samples)
            yield Written(way, found, perf_counter() - started)

    return ways(), pasts, distance


def _told(trajectories: Sequence[Trajectory]) -> list[float]:
    return [value for one in trajectories for value in one.logprobs]


def _told_again(engine: Engine, trajectories: Sequence[Trajectory]) -> list[float]:
    """Log-probabilities of all tokens under the weights that the engine has now; -50 for what is not kept."""
    found = []
    for past in remember(engine, trajectories, 0, torch.float32):
        for token, row in zip(past.tokens, past.rows, strict=True):
            mass = row.values.double()[row.ids == token]
            found.append(float((mass / row.values.double().sum()).log()) if len(mass) else -50.0)
    return found


def _size(pasts: Sequence[Past]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        save_pasts(pasts, path := Path(folder) / "pasts.safetensors")
        return path.stat().st_size


def main() -> int:
    """Run, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default")
    parser.add_argument("--moved", type=float, default=0.005)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--most", type=int, default=256)
    parser.add_argument("--budget", type=int, default=None, help="most tokens in a draft (default: --max-tokens)")
    parser.add_argument("--max-batch", type=int, default=16, help="most texts in a forward of the second epoch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", 2)))
    parser.add_argument("--markdown", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    ways, pasts, distance = epochs(args)
    tokens = sum(len(past.tokens) for past in pasts)
    chance = sum(row.chance for past in pasts for row in past.rows) / tokens
    lines = [
        f"{len(pasts)} texts, {tokens} tokens; policies apart by TV about {distance:.3f}; {args.most} tokens of a "
        f"row stored, {_size(pasts) / tokens:.0f} bytes a token, {chance:.3f} of the tokens may be drafted",
        "",
        "| second epoch | tokens | tokens per forward | accepted | reused | seconds / no draft |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    print("\n".join(lines), flush=True)
    plain = None
    for written in ways:
        own = written.seconds / written.figures[0]
        plain = own if plain is None else plain
        count, per_forward, accepted, reused = written.figures
        shown = f"{per_forward:.2f} | {accepted:.2f} | {reused:.2f} | {own / plain:.2f}"
        row = f"| {written.way.name} | {count} | {shown} |"
        lines.append(row)
        print(row, flush=True)
    if args.markdown is not None:
        args.markdown.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
