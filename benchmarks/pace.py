"""Does adapting the draft length pay? Plain decoding, prompt lookup at full length, and adaptive, taking turns.

Speeds are ratios to plain decoding of the same turn: above 1 is faster. The answer to the first prompt copies
from it, the others do not; adaptation is there to lose nothing on those.

    python benchmarks/pace.py --repeats 3
"""

from __future__ import annotations

import argparse
from statistics import median
from time import perf_counter

import torch

from specproof.cli.demo import PROMPTS
from specproof.engine.engine import Engine
from specproof.engine.loading import chat_tokens, load_engine
from specproof.engine.pace import Pace
from specproof.engine.stats import Statistics
from specproof.types import SamplingParams

MORE = (
    ("advice", "Give three tips for staying healthy."),
    ("reasons", "Why do people learn a foreign language? Answer in one paragraph."),
)


def decode(engine: Engine, prompt: list[int], params: SamplingParams) -> tuple[float, int, Statistics]:
    """Seconds, tokens and statistics of one run; every run learns anew."""
    engine.pace = Pace(engine.drafter, engine.coupled, adaptive=engine.pace.adaptive)
    start = perf_counter()
    result = engine.generate([prompt], params)[0]
    return perf_counter() - start, len(result.tokens), result.stats


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=None)
    args = parser.parse_args()
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    plain = load_engine(args.model, drafter="none")
    ways = {
        "plain": plain,
        "full": Engine(plain.target, "ngram", tokenizer=plain.tokenizer, eos=plain.eos, adaptive=False),
        "adaptive": Engine(plain.target, "ngram", tokenizer=plain.tokenizer, eos=plain.eos),
    }
    params = SamplingParams(temperature=args.temperature, max_tokens=args.max_tokens, seed=0, ignore_eos=True)
    print("prompt     tokens  plain tok/s   full  adaptive   accepted/drafted: full, adaptive   steps without")
    for name, text in (*PROMPTS, *MORE):
        prompt = chat_tokens(plain.tokenizer, text)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        stats = {}
        tokens = 0
        for turn in range(args.repeats + 1):
            for way, engine in ways.items():
                spent, tokens, stats[way] = decode(engine, prompt, params)
                # The first turn warms up.
                if turn:
                    seconds[way].append(spent)
        # Ratios within a turn: the machine may be slower in one than in another.
        ratios = {way: median(a / b for a, b in zip(seconds["plain"], seconds[way], strict=True)) for way in ways}
        full, adaptive = stats["full"], stats["adaptive"]
        print(
            f"{name:10} {tokens:6} {tokens / median(seconds['plain']):12.1f} {ratios['full']:6.3f} "
            f"{ratios['adaptive']:9.3f}   {full.accepted:4}/{full.drafted:4}, {adaptive.accepted:4}/"
            f"{adaptive.drafted:4}   {dict(adaptive.unspeculated)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
