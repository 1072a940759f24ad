"""Tokens per second at batch 1, 4 and 16, speculation off and on, beside transformers' own generate, in one run.

Two kinds of prompts: plain ones, and ones whose answer repeats the prompt. All ways take turns; medians count.
Greedy, in full length (no end of text), so that every way makes the same number of tokens. At batch 16 the
requests want mixed lengths: transformers runs its whole batch to the longest, this engine lets the short ones
leave; only the tokens that were asked for count. transformers looks prompts up for batch 1 only.

    python benchmarks/engine.py [--model NAME] [--threads N] [--batches 1,4,16]
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from time import perf_counter

import torch
from transformers.utils import logging

import specproof
from specproof.audit.prompts import PROMPTS
from specproof.engine.engine import Engine
from specproof.engine.loading import chat_tokens, load_engine
from specproof.types import SamplingParams

WAYS = ("transformers", "transformers lookup", "off", "on")
NAMES = (
    "Marta Olsen",
    "Tomas Novak",
    "Aiko Tanaka",
    "Liam Byrne",
    "Ines Duarte",
    "Sam Okoro",
    "Eva Lind",
    "Jo Park",
)
CITIES = ("Bergen", "Brno", "Kobe", "Cork", "Porto", "Lagos", "Lund", "Busan")


def records(number: int) -> str:
    """A prompt that asks for its own lines back."""
    lines = [f"{1000 + 7 * number + i},{NAMES[(number + i) % 8]},{CITIES[(3 * number + i) % 8]}" for i in range(6)]
    text = "\n".join(["id,name,city", *lines])
    return f"Repeat the following text exactly, all lines, nothing else:\n\n{text}\n"


def lengths(batch: int, longest: int) -> list[int]:
    """Output lengths: equal for small batches, from an eighth of `longest` up to it for a large one."""
    if batch < 16:
        return [longest] * batch
    return [longest * (2 + i) // (batch + 1) for i in range(batch)]


def ours(engine: Engine, prompts: list[list[int]], wanted: list[int]) -> None:
    """All requests at once through the engine."""
    params = SamplingParams(temperature=0, ignore_eos=True)
    results = engine.generate(prompts, [replace(params, max_tokens=n) for n in wanted])
    assert [len(result.tokens) for result in results] == wanted


def theirs(engine: Engine, prompts: list[list[int]], wanted: list[int], **options: int) -> None:
    """One padded batch through transformers' generate, to the longest."""
    model = engine.target.model  # type: ignore[attr-defined]
    width, longest = max(map(len, prompts)), max(wanted)
    ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    out = model.generate(
        ids,
        attention_mask=mask,
        max_new_tokens=longest,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        **options,
    )
    assert out.shape[1] == width + longest


def ways(plain: Engine, fast: Engine, batch: int) -> dict[str, Callable[[list[list[int]], list[int]], None]]:
    """What is compared at this batch size."""
    found = {
        "transformers": lambda prompts, wanted: theirs(plain, prompts, wanted),
        "transformers lookup": lambda prompts, wanted: theirs(plain, prompts, wanted, prompt_lookup_num_tokens=10),
        "off": lambda prompts, wanted: ours(plain, prompts, wanted),
        "on": lambda prompts, wanted: ours(fast, prompts, wanted),
    }
    if batch > 1:
        del found["transformers lookup"]
    return found


def main() -> None:
    """Print a table of tokens per second and ratios, then one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="default")
    parser.add_argument("--drafter", default="ngram")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--batches", default="1,4,16")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    fast = load_engine(args.model, drafter=args.drafter, dtype=args.dtype)
    plain = Engine(fast.target, "none", tokenizer=fast.tokenizer, eos=fast.eos)
    kinds = {"plain": list(PROMPTS), "copy": [records(i) for i in range(16)]}
    report: dict[str, dict[str, float]] = {}
    print(f"{'tokens per second, medians':28}" + "".join(f"{way:>21}" for way in WAYS))
    for kind, texts in kinds.items():
        for batch in map(int, args.batches.split(",")):
            prompts = [chat_tokens(fast.tokenizer, text) for text in texts[:batch]]
            wanted = lengths(batch, args.max_tokens)
            compared = ways(plain, fast, batch)
            spent: dict[str, list[float]] = {way: [] for way in compared}
            for turn in range(args.repeats + 1):
                for way, act in compared.items():
                    start = perf_counter()
                    act(prompts, wanted)
                    if turn:  # the first turn warms up
                        spent[way].append(perf_counter() - start)
            speed = {way: sum(wanted) / median(seconds) for way, seconds in spent.items()}
            report[f"{kind} {batch}"] = speed
            cells = [
                f"{speed[way]:9.1f} ({speed[way] / speed['transformers']:5.2f}x)" if way in speed else "-"
                for way in WAYS
            ]
            print(f"{f'{kind} prompts, batch {batch}':28}" + "".join(f"{cell:>21}" for cell in cells), flush=True)
    versions = {"specproof": specproof.__version__, "torch": torch.__version__, "threads": args.threads}
    print(json.dumps({"model": args.model, "dtype": args.dtype, "tokens_per_second": report} | versions))


if __name__ == "__main__":
    main()
