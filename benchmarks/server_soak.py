"""A long run of the server: clients with random prompts and parameters, some of whom leave in the middle.

Every finished text must equal the engine's own with the same seed, no request may be stuck, and the server's
memory must stay flat: the largest resident size of the last third of the turns against that of the first. The
server has a process of its own, whose memory is neither its callers' nor that of the engine they compare with.

    python benchmarks/server_soak.py [--minutes 20] [--clients 16] [--model tiny|NAME]
"""

import argparse
import gc
import json
import os
import random
import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic, sleep

import httpx
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from server import Server, serving
from specproof.backends.hf import HFBackend
from specproof.drafters.ngram import NgramDrafter
from specproof.engine.engine import Engine
from specproof.engine.loading import load_engine
from specproof.engine.requests import Request
from specproof.testing.tiny import tiny_model
from specproof.types import SamplingParams

FLAT = 1.02  # of the first third's resident size
WORDS = ["<end>", "a", "b", "c", "d", "e", "f", "g"]


def tiny_engine() -> Engine:
    """A toy of eight words, in float64: its texts do not depend on batch mates at all."""
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<end>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>", unk_token="<end>")
    target = HFBackend(tiny_model("llama", len(WORDS), context=128))
    return Engine(target, NgramDrafter(shortest=1), "coupling", tokenizer=tokenizer, eos=(0,), max_batch=8)


def make_engine(model: str) -> Engine:
    """The tiny engine, or one of a model by name."""
    torch.set_num_threads(1)
    return tiny_engine() if model == "tiny" else load_engine(model, rule="coupling")


def farewell(engine: Engine) -> dict[str, int]:
    """What is left of all requests in the server's process after its end."""
    gc.collect()
    requests = sum(type(thing) is Request for thing in gc.get_objects())
    return {"rows": len(engine.target.store.rows), "requests": requests}  # type: ignore[attr-defined]


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


def call(client: httpx.Client, number: int) -> str | None:
    """The text of a streamed request; None if this caller leaves before it is whole."""
    body = body_of(number) | {"model": "bench", "stream": True}
    leaves = random.Random(-1 - number).choice([None, None, None, 0, 1, 3])
    text = ""
    with client.stream("POST", "/v1/completions", json=body) as answer:
        answer.raise_for_status()
        for seen, line in enumerate(filter(None, answer.iter_lines())):
            if seen == leaves:
                return None
            if line != "data: [DONE]":
                text += "".join(choice["text"] for choice in json.loads(line[6:])["choices"])
    return text


def resident(process: int) -> int:
    """Resident size of a process now, in MiB."""
    with open(f"/proc/{process}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 2**20


@dataclass
class Tally:
    """What became of the requests, and resident sizes after each turn."""

    finished: int = 0
    left: int = 0
    wrong: list[int] = field(default_factory=list)
    server: list[int] = field(default_factory=list)
    callers: list[int] = field(default_factory=list)


def soak(client: httpx.Client, server: Server, reference: Engine, clients: int, seconds: float) -> Tally:
    """Turns of eight requests a client until time is up; each text is compared while others are served."""
    tally, number, end = Tally(), 0, monotonic() + seconds
    with ThreadPoolExecutor(clients) as pool:
        while monotonic() < end:
            block = range(number, number + 8 * clients)
            number = block.stop
            for one, text in zip(block, pool.map(lambda n: call(client, n), block), strict=True):
                if text is None:
                    tally.left += 1
                    continue
                body = body_of(one)
                prompt = str(body.pop("prompt"))
                tally.finished += 1
                if text != reference.generate([prompt], SamplingParams.from_dict(body))[0].text:
                    tally.wrong.append(one)
            tally.server.append(resident(server.process))
            tally.callers.append(resident(os.getpid()))
    return tally


def stuck(client: httpx.Client) -> list[str]:
    """What the server says of its requests half a minute after the last caller; nothing if none is left."""
    deadline = monotonic() + 30
    while "specproof_requests 0.0" not in (text := client.get("/metrics").text):
        if monotonic() > deadline:
            return [line for line in text.splitlines() if line.startswith("specproof_requests")]
        sleep(0.1)
    return []


def thirds(sizes: list[int]) -> tuple[int, int]:
    """The largest of the first third and of the last."""
    third = max(1, len(sizes) // 3)
    return max(sizes[:third]), max(sizes[-third:])


def main() -> None:
    """Run, compare, report; exit code 1 if anything was wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--model", default="tiny")
    args = parser.parse_args()
    reference = make_engine(args.model)
    # One client for all: each of its own would load the certificates anew, for nothing.
    with (
        serving(make_engine, args.model, farewell) as server,
        httpx.Client(base_url=server.address, timeout=120) as client,
    ):
        tally = soak(client, server, reference, args.clients, 60 * args.minutes)
        late = stuck(client)
    first, last = thirds(tally.server)
    requests, rows = server.left["requests"], server.left["rows"]
    print(
        f"{tally.finished} texts compared, {len(tally.wrong)} differ {tally.wrong[:5]}; {tally.left} callers left"
    )
    print(f"stuck: {late or 'none'}; after the stop {requests} requests and {rows} rows are left")
    print("resident MiB, most in the first third and in the last:")
    print(f"  server {first}, {last}; callers and the engine they compare with {thirds(tally.callers)}")
    sys.exit(bool(tally.wrong or late or requests or rows or last > FLAT * first))


if __name__ == "__main__":
    main()
