"""What a server keeps of requests that are over: nothing, however they ended. A count of objects, not of bytes."""

import gc
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from specproof.engine.history import History
from specproof.engine.requests import Request, Result
from specproof.engine.stats import Statistics
from specproof.engine.text import StoppedText
from specproof.server.answers import Answer
from specproof.server.inbox import Inbox
from specproof.server.watch import Watch
from specproof.types import TokenSequence

from .conftest import serving
from .test_refusals import Slow, settle

KINDS = (Request, Result, Statistics, History, StoppedText, TokenSequence, Answer, Inbox, Watch)
PLAIN = {"model": "tiny", "prompt": "a b c a b", "max_tokens": 30, "ignore_eos": True, "seed": 1}
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "a b a"}], "max_tokens": 9, "logprobs": True}


def whole(client):
    assert client.post("/v1/completions", json=PLAIN | {"n": 3, "stop": ["g g"]}).status_code == 200


def streamed(client):
    assert client.post("/v1/chat/completions", json=CHAT | {"stream": True}).text.endswith("[DONE]\n\n")


def leaves(client):
    with client.stream("POST", "/v1/completions", json=PLAIN | {"stream": True, "n": 2}) as answer:
        next(answer.iter_lines())


def gives_up(client):
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/completions", json=PLAIN | {"max_tokens": 56}, timeout=0.1)


def refused(client):
    assert client.post("/v1/completions", json=PLAIN | {"prompt": [99]}).status_code == 400


def crowded(client):
    assert client.post("/v1/completions", json=PLAIN | {"n": 60}).status_code == 400


def watched(client):
    body = {"prompt": "a b a b", "max_tokens": 12, "seed": 2}
    assert '"done"' in client.post("/specproof/watch", json=body).text


def living():
    """Objects of requests, by kind, that something still refers to."""
    gc.collect()
    return Counter(type(thing) for thing in gc.get_objects() if type(thing) in KINDS)


def test_nothing_is_left_of_requests_that_are_over(make_engine):
    engine = make_engine(Slow(), max_batch=4)
    ways = [whole, streamed, leaves, gives_up, refused, crowded, watched]
    before = living()
    with serving(engine, most_waiting=50) as base, httpx.Client(base_url=base, timeout=60) as client:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda way: way(client), ways * 3))
        settle(client)
        deadline = time.monotonic() + 10  # the last answers may be on their way out
        while (left := living() - before) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left == Counter()
        assert engine.target.store.rows == []
