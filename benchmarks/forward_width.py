"""What a target forward costs by its width: the price of verifying a draft, against the price of one token.

Widths and dtypes take turns in one run; medians count. Decoding is bound by reading the weights, so a forward
over several positions costs little more than one over a single position: that is what speculation lives on.

    python benchmarks/forward_width.py [--model NAME] [--threads N]
"""

import argparse
import json
from statistics import median
from time import perf_counter

import torch
from transformers.utils import logging

import specproof
from specproof.backends.hf import HFBackend
from specproof.engine.loading import load_model
from specproof.tree import Tree
from specproof.types import Draft, SamplingParams, TokenSequence

WIDTHS = (1, 2, 4, 8, 16)
DTYPES = ("float32", "bfloat16")


def timed(backend: HFBackend, width: int, context: int) -> float:
    """Seconds of one forward over `width` positions behind `context` tokens."""
    sequence = TokenSequence([7] * context, context, SamplingParams(), 0)
    none = Draft((Tree.chain(0),), torch.zeros(1, 0, dtype=torch.long), None, "point")
    backend.forward([sequence], none)
    sequence.tokens.append(7)
    backend.keep([sequence], [()])
    draft = Draft((Tree.chain(width - 1),), torch.full((1, width - 1), 7), None, "point")
    start = perf_counter()
    backend.forward([sequence], draft)
    seconds = perf_counter() - start
    backend.free([sequence])
    return seconds


def main() -> None:
    """Print a table, then one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="default")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    backends = {dtype: HFBackend(load_model(args.model, dtype)) for dtype in DTYPES}
    times: dict[tuple[str, int], list[float]] = {(d, w): [] for d in DTYPES for w in WIDTHS}
    for turn in range(args.repeats + 1):
        for dtype, width in times:
            seconds = timed(backends[dtype], width, 64)
            if turn:  # the first turn warms up
                times[dtype, width].append(seconds)
    table = {f"{dtype} {width}": 1000 * median(spent) for (dtype, width), spent in times.items()}
    print("milliseconds of a forward, medians        " + "".join(f"{width:>8}" for width in WIDTHS))
    for dtype in DTYPES:
        row = [table[f"{dtype} {width}"] for width in WIDTHS]
        print(f"{dtype:42}" + "".join(f"{ms:8.1f}" for ms in row))
        print(f"{'  against one position':42}" + "".join(f"{ms / row[0]:7.2f}x" for ms in row))
    versions = {"specproof": specproof.__version__, "torch": torch.__version__, "threads": args.threads}
    print(json.dumps({"model": args.model, "milliseconds": table} | versions))


if __name__ == "__main__":
    main()
