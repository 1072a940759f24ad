"""Tokens per second and time to first token of the server, 1 to 16 clients, speculation off and on, in one run.

The server has a process of its own. Clients stream chats over a real socket, each its next prompt as soon as it
has an answer: the same prompts whatever the number of clients, greedily, to their natural end or `--max-tokens`.
Off and on are a field of the request, so one engine does both; they take turns, and medians of the turns count.

    python benchmarks/server.py [--model NAME] [--drafter NAME] [--dtype NAME] [--threads N] [--clients 1,4,16]
"""

import argparse
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median
from threading import Thread
from time import perf_counter, sleep
from typing import Any, NamedTuple

import httpx
import torch
from transformers.utils import logging

import specproof
from specproof.audit.prompts import PROMPTS
from specproof.engine.engine import Engine
from specproof.engine.loading import load_engine
from specproof.server.app import Settings, create_app
from specproof.server.listen import Listener

WAYS = {"off": False, "on": True}


@dataclass
class Server:
    """A server in a process of its own.

    Attributes:
        about: what `/v1/models` says of its engine.
        left: what its `farewell` told of the engine once it had stopped.
    """

    address: str
    process: int
    about: dict[str, Any] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)


@contextmanager
def serving(
    make: Callable[[Any], Engine], of: object, farewell: Callable[[Engine], dict[str, int]] | None = None
) -> Iterator[Server]:
    """A server of the engine that `make(of)` gives, for as long as the block lasts; all must be picklable."""
    spawn = get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(make, of, farewell, theirs), daemon=True)
    process.start()
    theirs.close()
    assert process.pid is not None
    server = Server(ours.recv(), process.pid)
    server.about = httpx.get(f"{server.address}/v1/models").json()["data"][0]["specproof"]
    yield server
    ours.send("stop")
    server.left = ours.recv()
    process.join()


def _serve(
    make: Callable[[Any], Engine],
    of: object,
    farewell: Callable[[Engine], dict[str, int]] | None,
    pipe: Connection,
) -> None:
    """The server's process: tells its address, waits for a word, stops, and says farewell."""
    engine = make(of)
    server = Listener(create_app(engine, Settings("bench")))
    thread = Thread(target=server.run)
    thread.start()
    while not server.started:
        sleep(0.01)
    pipe.send(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
    pipe.recv()
    server.should_exit = True
    thread.join()
    pipe.send(farewell(engine) if farewell else {})


def engine_for(args: argparse.Namespace) -> Engine:
    """The engine that the flags ask for."""
    torch.set_num_threads(args.threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return load_engine(args.model, drafter=args.drafter, dtype=args.dtype)


class Answer(NamedTuple):
    """Of one streamed chat: seconds to its first text, tokens, and the text."""

    first: float
    tokens: int
    text: str


class Turn(NamedTuple):
    """Of one turn: tokens per second, the median time to the first text in seconds, and the texts."""

    speed: float
    first: float
    texts: list[str]


def call(client: httpx.Client, prompt: str, tokens: int, speculation: bool) -> Answer:
    """One streamed chat."""
    body = {
        "model": "bench",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "speculation": {"enabled": speculation},
    }
    begin, first, count, text = perf_counter(), 0.0, 0, ""
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if not line or line.endswith("[DONE]"):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            text += "".join(choice["delta"]["content"] for choice in chunk["choices"])
            if text and not first:
                first = perf_counter() - begin
            count = (chunk.get("usage") or {}).get("completion_tokens", count)
    return Answer(first, count, text)


def turn(client: httpx.Client, prompts: list[str], clients: int, tokens: int, speculation: bool) -> Turn:
    """All prompts, so many at a time."""
    begin = perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(lambda prompt: call(client, prompt, tokens, speculation), prompts))
    seconds = perf_counter() - begin
    speed = sum(answer.tokens for answer in answers) / seconds
    return Turn(speed, median(answer.first for answer in answers), [answer.text for answer in answers])


def measure(client: httpx.Client, clients: int, args: argparse.Namespace) -> dict[str, list[Turn]]:
    """Turns off and on, after a short one of each that does not count."""
    # Twice as many prompts as clients at least, for the batch to be full most of the time.
    prompts = list(PROMPTS[: args.prompts]) * max(1, 2 * clients // args.prompts)
    found: dict[str, list[Turn]] = {way: [] for way in WAYS}
    for repeat in range(args.repeats + 1):
        asked = prompts if repeat else prompts[:clients]
        for way in WAYS:
            measured = turn(client, asked, clients, args.max_tokens, WAYS[way])
            if repeat:
                found[way].append(measured)
    return found


def main() -> None:
    """Print a table, then one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="default")
    parser.add_argument("--drafter", default="auto")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--clients", default="1,4,16")
    args = parser.parse_args()
    report: dict[str, dict[str, float]] = {}
    with serving(engine_for, args) as server, httpx.Client(base_url=server.address, timeout=600) as client:
        print("clients  tokens/s off      on  on/off  first token off, s      on  same texts")
        for clients in map(int, args.clients.split(",")):
            found = measure(client, clients, args)
            speed = {way: median(one.speed for one in turns) for way, turns in found.items()}
            first = {way: median(one.first for one in turns) for way, turns in found.items()}
            pairs = [*zip(found["off"][0].texts, found["on"][0].texts, strict=True)]
            same = sum(off == on for off, on in pairs)
            report[str(clients)] = {f"tokens_per_second_{way}": speed[way] for way in WAYS}
            report[str(clients)] |= {f"first_token_{way}": first[way] for way in WAYS}
            print(
                f"{clients:<8}{speed['off']:>13.1f}{speed['on']:>8.1f}{speed['on'] / speed['off']:>7.2f}x"
                f"{first['off']:>20.2f}{first['on']:>8.2f}{f'{same} of {len(pairs)}':>12}",
                flush=True,
            )
    versions = {"specproof": specproof.__version__, "torch": torch.__version__, "threads": args.threads}
    print(json.dumps({"model": args.model, **server.about, "clients": report} | versions))


if __name__ == "__main__":
    main()
