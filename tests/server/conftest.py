"""A server on a tiny model in a thread, over a real socket."""

import threading
import time
from contextlib import contextmanager

import httpx
import openai
import pytest

from specproof.backends.hf import HFBackend
from specproof.drafters.ngram import NgramDrafter
from specproof.engine.engine import Engine
from specproof.server.app import Settings, create_app
from specproof.server.listen import Listener
from specproof.testing.tiny import tiny_model

TEMPLATE = "{% for m in messages %}{{ m.content }} {% endfor %}"


@contextmanager
def serving(engine, **settings):
    """The base address of a server, for as long as the block lasts."""
    app = create_app(engine, Settings("tiny", **{"patience": 5.0} | settings))
    server = Listener(app)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        assert not thread.is_alive(), "the server did not stop"


@pytest.fixture(scope="session")
def chatty_tokenizer(word_tokenizer):
    from copy import deepcopy

    tokenizer = deepcopy(word_tokenizer)
    tokenizer.chat_template = TEMPLATE
    return tokenizer


@pytest.fixture(scope="session")
def make_engine(chatty_tokenizer):
    def make(drafter=None, context=64, **options):
        target = HFBackend(tiny_model("llama", 8, context=context))
        drafter = drafter or NgramDrafter(shortest=1)
        return Engine(target, drafter, "coupling", tokenizer=chatty_tokenizer, eos=(0,), **options)

    return make


@pytest.fixture(scope="session")
def address(make_engine):
    with serving(make_engine()) as base:
        yield base


@pytest.fixture(scope="session")
def client(address):
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="session")
def http(address):
    with httpx.Client(base_url=address, timeout=30) as made:
        yield made
