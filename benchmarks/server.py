"""Tokens per second and time to first token of the server, 1 to 16 clients, speculation off and on, in one run.

Clients stream completions over a real socket, each its next prompt as soon as it has an answer. Off and on take
turns; medians of the turns count. Half of the prompts repeat themselves in their answer.

    python benchmarks/server.py [--model NAME] [--threads N] [--clients 1,4,16]
"""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from statistics import median
from threading import Thread
from time import perf_counter, sleep

import httpx
import torch
import uvicorn
from transformers.utils import logging

import specproof
from specproof.audit.prompts import PROMPTS
from specproof.engine.engine import Engine
from specproof.engine.loading import load_engine
from specproof.server.app import Settings, create_app

RECORDS = "Repeat exactly, all lines, nothing else:\n\nid,name,city\n" + "\n".join(
    f"{1041 + i},{name},{city}"
    for i, (name, city) in enumerate((("Marta", "Bergen"), ("Tomas", "Brno"), ("Aiko", "Kobe"), ("Liam", "Cork")))
)
MESSAGES = [text for prompt in PROMPTS[:8] for text in (prompt, RECORDS)]


def start(engine: Engine, stack: ExitStack) -> str:
    """Serve the engine until the stack closes; returns the address."""
    server = uvicorn.Server(uvicorn.Config(create_app(engine, Settings("bench")), port=0, log_level="error"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        sleep(0.01)

    def stop() -> None:
        server.should_exit = True
        thread.join()

    stack.callback(stop)
    return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"


def call(address: str, number: int, tokens: int) -> tuple[float, int]:
    """One streamed chat: seconds to its first text, and tokens."""
    body = {
        "model": "bench",
        "messages": [{"role": "user", "content": MESSAGES[number % len(MESSAGES)]}],
        "max_tokens": tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    begin, first, count = perf_counter(), 0.0, 0
    with httpx.stream("POST", f"{address}/v1/chat/completions", json=body, timeout=600) as answer:
        for line in answer.iter_lines():
            if not line or line.endswith("[DONE]"):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            if not first and any(choice["delta"]["content"] for choice in chunk["choices"]):
                first = perf_counter() - begin
            count = (chunk.get("usage") or {}).get("completion_tokens", count)
    return first, count


def turn(address: str, clients: int, tokens: int) -> tuple[float, float]:
    """Two requests a client; tokens per second, and the median time to the first token."""
    begin = perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(lambda number: call(address, number, tokens), range(2 * clients)))
    seconds = perf_counter() - begin
    return sum(count for _, count in answers) / seconds, median(first for first, _ in answers)


def main() -> None:
    """Print a table, then one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="default")
    parser.add_argument("--drafter", default="ngram")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--clients", default="1,4,16")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    fast = load_engine(args.model, drafter=args.drafter)
    report: dict[str, dict[str, float]] = {}
    print(f"{'clients':8}{'tokens/s off':>14}{'on':>8}{'on/off':>8}{'first token off, s':>20}{'on':>8}")
    with ExitStack() as stack:
        # Both engines run over one target, and never at the same time.
        off = Engine(fast.target, "none", tokenizer=fast.tokenizer, eos=fast.eos)
        addresses = {"off": start(off, stack), "on": start(fast, stack)}
        for clients in map(int, args.clients.split(",")):
            found: dict[str, list[tuple[float, float]]] = {"off": [], "on": []}
            for repeat in range(args.repeats + 1):
                for way, address in addresses.items():
                    measured = turn(address, clients, args.max_tokens)
                    if repeat:  # the first warms up
                        found[way].append(measured)
            speed = {way: median(s for s, _ in each) for way, each in found.items()}
            first = {way: median(f for _, f in each) for way, each in found.items()}
            report[str(clients)] = {f"tokens_per_second_{w}": speed[w] for w in speed}
            report[str(clients)] |= {f"first_token_{w}": first[w] for w in first}
            print(
                f"{clients:<8}{speed['off']:>14.1f}{speed['on']:>8.1f}{speed['on'] / speed['off']:>7.2f}x"
                f"{first['off']:>20.2f}{first['on']:>8.2f}",
                flush=True,
            )
    versions = {"specproof": specproof.__version__, "torch": torch.__version__, "threads": args.threads}
    print(json.dumps({"model": args.model, "clients": report} | versions))


if __name__ == "__main__":
    main()
