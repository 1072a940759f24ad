"""A long run of the server: clients with random prompts and parameters, some of whom leave in the middle.

Every finished text must equal the engine's own with the same seed, no request may be stuck, and memory must stay
flat: the largest resident size of the last third against that of the first.

    python benchmarks/server_soak.py [--minutes 20] [--clients 16] [--model tiny|NAME]
"""

import argparse
import json
import random
import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from time import monotonic, sleep

import httpx
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from server import start
from specproof.backends.hf import HFBackend
from specproof.drafters.ngram import NgramDrafter
from specproof.engine.engine import Engine
from specproof.engine.loading import load_engine
from specproof.testing.tiny import tiny_model
from specproof.types import SamplingParams

WORDS = ["<end>", "a", "b", "c", "d", "e", "f", "g"]


def tiny_engine() -> Engine:
    """A toy of eight words, in float64: its texts do not depend on batch mates at all."""
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<end>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>", unk_token="<end>")
    target = HFBackend(tiny_model("llama", len(WORDS), context=128))
    return Engine(target, NgramDrafter(shortest=1), "coupling", tokenizer=tokenizer, eos=(0,), max_batch=8)


def body_of(number: int) -> dict[str, object]:
    """Request of that number: the same whenever it is asked for."""
    chance = random.Random(number)
    words = [chance.choice(WORDS[1:]) for _ in range(chance.randint(1, 30))]
    return {
        "prompt": " ".join(words),
        "max_tokens": chance.randint(1, 60),
        "temperature": chance.choice([0, 0.5, 0.8, 1.0, 1.3]),
        "top_p": chance.choice([1.0, 0.9]),
        "top_k": chance.choice([0, 5]),
        "presence_penalty": chance.choice([0.0, 0.4]),
        "repetition_penalty": chance.choice([1.0, 1.2]),
        "seed": number,
        "ignore_eos": chance.random() < 0.5,
    }


def serve_one(address: str, number: int) -> str | None:
    """The text of a streamed request; None if this client leaves before it is whole."""
    body = body_of(number) | {"model": "bench", "stream": True}
    leaves = random.Random(-1 - number).choice([None, None, None, 0, 1, 3])
    text = ""
    with httpx.stream("POST", f"{address}/v1/completions", json=body, timeout=120) as answer:
        answer.raise_for_status()
        for seen, line in enumerate(filter(None, answer.iter_lines())):
            if seen == leaves:
                return None
            if line != "data: [DONE]":
                text += "".join(choice["text"] for choice in json.loads(line[6:])["choices"])
    return text


def resident() -> int:
    """Resident size of this process now, in MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 2**20


def main() -> None:
    """Run, compare, report; exit code 1 if anything was wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--model", default="tiny")
    args = parser.parse_args()
    torch.set_num_threads(1)
    make = tiny_engine if args.model == "tiny" else lambda: load_engine(args.model, rule="coupling")
    engine, reference = make(), make()
    sizes: list[int] = []
    wrong: list[int] = []
    finished = left = number = 0
    end = monotonic() + 60 * args.minutes
    with ExitStack() as stack:
        address = start(engine, stack)
        with ThreadPoolExecutor(args.clients) as pool:
            while monotonic() < end:
                block = range(number, number + 8 * args.clients)
                number = block.stop
                for one, text in zip(block, pool.map(lambda n: serve_one(address, n), block), strict=True):
                    if text is None:
                        left += 1
                        continue
                    body = body_of(one)
                    prompt = str(body.pop("prompt"))
                    expected = reference.generate([prompt], SamplingParams.from_dict(body))[0].text
                    finished += 1
                    if text != expected:
                        wrong.append(one)
                sizes.append(resident())
        deadline = monotonic() + 30
        while "specproof_requests 0.0" not in (text := httpx.get(f"{address}/metrics").text):
            if monotonic() > deadline:
                print("STUCK:", [line for line in text.splitlines() if line.startswith("specproof_requests")])
                sys.exit(1)
            sleep(0.1)
        rows = len(engine.target.store.rows)  # type: ignore[attr-defined]
    third = max(1, len(sizes) // 3)
    print(
        f"{finished} texts compared, {left} callers left, {len(wrong)} texts differ {wrong[:5]}, {rows} rows left"
    )
    print(f"resident MiB: first third at most {max(sizes[:third])}, last third at most {max(sizes[-third:])}")
    sys.exit(bool(wrong or rows))


if __name__ == "__main__":
    main()
