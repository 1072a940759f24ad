"""A small OpenAI-compatible server on a tiny float64 model, with faults and failures that can be switched on."""

import asyncio
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

WORDS = ("<end>", "a", "b", "c", "d", "e", "f", "g")
NODES = 3


@lru_cache(maxsize=4)
def table(seed=0, size=8):
    """Rows of a target and of its draft after the last two tokens."""
    rng = np.random.default_rng(seed)
    target = rng.dirichlet(np.full(size, 0.7), size=(size, size)) + 1e-3
    draft = target * np.exp(1.6 * rng.normal(size=target.shape))
    return tuple(rows / rows.sum(-1, keepdims=True) for rows in (target, draft))


def by_table(tokens):
    """Target row and draft row after some tokens."""
    before = (0, 0, *tokens)[-2:]
    return tuple(rows[before] for rows in table())


@dataclass
class Server:
    """How it behaves.

    Attributes:
        rows: target row and draft row after tokens, as a function.
        fault: name of a planted fault; empty for none.
        tells: "answer" or "metrics" for where drafts are told of; empty for nowhere.
        laws, ids: whether log-probabilities, and numbers of tokens, are given to those who ask.
        beside: numbers of tokens are given beside log-probabilities that say nothing, as llama.cpp does of drafts.
        strict: fields beyond the plain ones are refused.
        failures: by number of the request from 1 on, what goes wrong with it.
        dies: number of the request at which everything ends.
    """

    rows: object = by_table
    fault: str = ""
    tells: str = "answer"
    laws: bool = False
    strict: bool = False
    ids: bool = False
    beside: bool = False
    failures: dict = field(default_factory=dict)
    dies: int = 0
    asked: list = field(default_factory=list)
    keys: set = field(default_factory=set)
    requests: int = 0
    drafted: int = 0
    accepted: int = 0

    def text(self, prompt, body):
        """Tokens with their raw rows, drafted and accepted."""
        on = body.get("speculation", {}).get("enabled", True) or self.fault == "switch ignored"
        seed = body.get("seed")
        if seed is None:
            seed = self.requests
        if self.fault == "seed shared" and on:
            seed = sum(prompt)
        rng = np.random.default_rng(seed)
        temperature, min_p = body.get("temperature", 1.0), body.get("min_p", 0.0)
        if self.fault == "temperature ignored" and on:
            temperature = 1.0
        made, drafted, accepted = [], 0, 0
        while len(made) < body["max_tokens"]:
            if not on:
                made.append(self._draw(self._warped((*prompt, *made), temperature, min_p, rng), rng))
                continue
            nodes = []
            for _ in range(NODES):
                nodes.append(self._draw(self.rows((*prompt, *made, *nodes))[1], rng))
            taken = 0
            drafted += NODES
            for at, node in enumerate(nodes):
                here = (*prompt, *made)
                only_bonus = 0.0 if self.fault == "min-p on the bonus only" else min_p
                target, draft = self._warped(here, temperature, only_bonus, rng), self.rows(here)[1]
                sure = self.fault == "first draft unverified" and at == 0
                if sure or rng.random() * draft[node] < target[node]:
                    made.append(node)
                    taken += 1
                    continue
                rest = np.maximum(target - draft, 0)
                made.append(self._draw(rest / rest.sum(), rng))
                break
            else:
                made.append(self._draw(self._warped((*prompt, *made), temperature, min_p, rng), rng))
            accepted += taken
        return made[: body["max_tokens"]], drafted, accepted

    def _warped(self, tokens, temperature, min_p, rng):
        logits = np.log(self.rows(tokens)[0])
        if self.fault == "temperature 0 noisy" and temperature == 0:
            logits = logits + np.random.default_rng().normal(size=len(logits))
        if temperature == 0:
            return np.eye(len(logits))[logits.argmax()]
        row = np.exp((logits - logits.max()) / temperature)
        row = np.where(row >= min_p * row.max(), row, 0)
        return row / row.sum()

    @staticmethod
    def _draw(row, rng):
        return int(min(np.searchsorted(row.cumsum(), rng.random(), side="right"), len(row) - 1))

    def answer(self, body):
        """OpenAI's JSON."""
        prompt = body["prompt"]
        if isinstance(prompt, str):
            prompt = [WORDS.index(word) for word in prompt.split()]
        tokens, drafted, accepted = self.text(tuple(prompt), body)
        self.drafted, self.accepted = self.drafted + drafted, self.accepted + accepted
        names = [WORDS[token] for token in tokens]
        choice = {"index": 0, "text": " ".join(names), "finish_reason": "length", "logprobs": None}
        if self.laws and body.get("logprobs"):
            tops, own = [], []
            for at, token in enumerate(tokens):
                logs = np.log(self.rows((*prompt, *tokens[:at]))[0])
                likely = np.argsort(-logs)[: body["logprobs"]]
                tops.append({WORDS[each]: float(logs[each]) for each in likely})
                own.append(float(logs[token]))
            choice["logprobs"] = {"tokens": names, "token_logprobs": own, "top_logprobs": tops}
        if self.beside and body.get("logprobs"):
            bare = {"logprob": 0.0, "top_logprobs": []}
            choice["logprobs"] = {"content": [{"token": WORDS[each], "id": each, **bare} for each in tokens]}
        if self.ids and body.get("return_token_ids"):
            choice["token_ids"] = tokens
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(tokens)}
        whole = {"object": "text_completion", "choices": [choice], "usage": usage}
        if self.tells == "answer":
            whole["specproof"] = {"choices": [{"drafted": drafted, "accepted": accepted}]}
        return whole

    def metrics(self):
        if self.tells != "metrics":
            return 404, "none"
        return 200, (
            f'vllm:spec_decode_num_draft_tokens_total{{engine="0"}} {self.drafted}.0\n'
            f'vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {self.accepted}.0\n'
        )


_KNOWN = {"model", "prompt", "max_tokens", "temperature", "top_p", "min_p", "speculation"}


class _Dead(Exception):
    pass


async def _serve(server, reader, writer):
    try:
        while line := await reader.readline():
            method, path, _ = line.decode().split()
            length, key = 0, ""
            while (header := await reader.readline()) not in (b"\r\n", b""):
                name, _, value = header.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
                key = value.strip() if name.lower() == "authorization" else key
            body = json.loads(await reader.readexactly(length)) if length else {}
            await _reply(server, writer, (method, path, key), body)
            await writer.drain()
    except (_Dead, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
        pass
    finally:
        writer.close()


async def _reply(server, writer, head, body):
    method, path, key = head
    if method == "GET":
        found = {"data": [{"id": "tiny"}]} if path.endswith("/models") else None
        status, text = (200, json.dumps(found)) if found else server.metrics()
        return _write(writer, status, text)
    server.requests += 1
    server.keys.add(key)
    if server.dies and server.requests >= server.dies:
        raise _Dead
    failure = server.failures.get(server.requests)
    if failure == "stall":
        await asyncio.sleep(3600)
    if isinstance(failure, int):
        return _write(writer, failure, '{"error": {"message": "planted"}}', "Retry-After: 0\r\n")
    if failure == "other json":
        return _write(writer, 200, '{"detail": "planted"}')
    if failure == "no json":
        return _write(writer, 200, "<html>planted</html>")
    if failure == "hang up":
        raise _Dead
    server.asked.append(body)
    if server.strict and (unknown := body.keys() - _KNOWN):
        return _write(writer, 400, json.dumps({"error": {"message": f"unknown fields {sorted(unknown)}"}}))
    whole = server.answer(body)
    if not body.get("stream"):
        return _write(writer, 200, json.dumps(whole))
    return _stream(writer, whole, failure)


def _stream(writer, whole, failure):
    """Two chunks of text; a truncated one lacks its end, in one of two ways."""
    choice = whole["choices"][0]
    text, half = choice["text"], len(choice["text"]) // 2
    first = {"choices": [choice | {"text": text[:half], "finish_reason": None}]}
    last = {"choices": [{"index": 0, "text": text[half:], "finish_reason": "length"}]}
    rest = {name: whole[name] for name in whole if name != "choices"} | {"choices": []}
    events = [f"data: {json.dumps(event)}\n\n" for event in (first, last, rest)] + ["data: [DONE]\n\n"]
    if failure == "cut event":
        events = [events[0], events[1][: len(events[1]) // 2]]
    if failure == "cut stream":
        events = events[:1]
    if failure == "error event":
        events = [events[0], 'data: {"error": {"message": "planted"}}\n\n', events[3]]
    _write(writer, 200, "".join(events), "Content-Type: text/event-stream\r\n", "")


def _write(writer, status, text, more="", kind="Content-Type: application/json\r\n"):
    data = text.encode()
    writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n{kind}{more}\r\n".encode() + data)


@contextmanager
def serving(server):
    """The base address of a server's API, for as long as the block lasts."""
    loop, started, found = asyncio.new_event_loop(), threading.Event(), {}

    async def main():
        listening = await asyncio.start_server(lambda r, w: _serve(server, r, w), "127.0.0.1", 0)
        found["port"] = listening.sockets[0].getsockname()[1]
        found["stop"] = asyncio.Event()
        started.set()
        await found["stop"].wait()
        listening.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()), daemon=True)
    thread.start()
    assert started.wait(10), "the server did not start"
    try:
        yield f"http://127.0.0.1:{found['port']}/v1"
    finally:
        loop.call_soon_threadsafe(found["stop"].set)
        thread.join(10)
        loop.close()
