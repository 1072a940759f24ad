"""What a server must survive and refuse: fields, bodies, keys, crowds, callers who leave, faults of its own."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_create_params

from specproof.drafters.ngram import NgramDrafter
from specproof.server import listen
from specproof.server.schema import REFUSED, ChatRequest, CompletionRequest
from specproof.types import SamplingParams

from .conftest import serving

PLAIN = {"model": "tiny", "prompt": "a b c a b"}
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "a"}]}


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("completions", PLAIN | {"temprature": 1}, "unknown field: temprature (did you mean temperature?)"),
        ("completions", PLAIN | {"foo": 1, "n": "x", "bar": None}, "unknown fields: "),
        ("completions", PLAIN | {"speculation": {"budgett": 1}}, "speculation.budgett (did you mean budget?)"),
        ("completions", PLAIN | {"temperature": -1}, "temperature=-1.0 is not allowed"),
        ("completions", PLAIN | {"top_p": 2}, "top_p=2.0"),
        ("completions", PLAIN | {"n": 0}, "n: "),
        ("completions", PLAIN | {"best_of": 3}, "best_of cannot be honoured"),
        ("completions", PLAIN | {"suffix": "x"}, "suffix cannot be honoured"),
        ("completions", PLAIN | {"logit_bias": {"99": 1}}, "token 99"),
        ("completions", PLAIN | {"stop": [""]}, "stop="),
        ("completions", PLAIN | {"seed": -3}, "seed=-3"),
        ("completions", PLAIN | {"prompt": []}, "empty list"),
        ("completions", PLAIN | {"prompt": ""}, "the prompt is empty"),
        ("completions", PLAIN | {"prompt": [1, 77]}, "token 77 is outside"),
        ("completions", PLAIN | {"prompt": [1] * 65}, "65 tokens"),
        ("completions", PLAIN | {"stream_options": {"include_usage": True}}, "stream_options goes with stream"),
        ("completions", PLAIN | {"speculation": {"drafter": "model"}}, "this server runs 'ngram'"),
        ("completions", PLAIN | {"speculation": {"rule": "typical"}}, "this server runs 'coupling'"),
        ("completions", PLAIN | {"max_tokens": 1000}, "max_tokens=1000 is more than this server allows"),
        ("chat/completions", CHAT | {"tools": [{"type": "function"}]}, "no tool-call parser"),
        ("chat/completions", CHAT | {"messages": []}, "messages"),
        ("chat/completions", CHAT | {"top_logprobs": 2}, "top_logprobs goes with logprobs"),
        ("chat/completions", CHAT | {"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        ("chat/completions", CHAT | {"reasoning_effort": "high"}, "reasoning_effort cannot be honoured"),
        ("chat/completions", CHAT | {"max_tokens": 3, "max_completion_tokens": 4}, "differ"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(limited, path, body, message):
    answer = limited.post(f"/v1/{path}", json=body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_all_unknown_fields_are_named(limited):
    error = limited.post("/v1/completions", json=PLAIN | {"foo": 1, "n": "x", "bar": None}).json()["error"]
    assert "foo" in error["message"]
    assert "bar" in error["message"]
    assert error["param"] in ("foo", "bar")


@pytest.fixture(scope="module")
def limited(make_engine):
    with serving(make_engine(), most_tokens=100, most_bytes=20000) as base, httpx.Client(base_url=base) as client:
        yield client


@pytest.mark.parametrize(
    ("body", "params"),
    [(CompletionRequest, completion_create_params), (ChatRequest, chat_create_params)],
)
def test_every_field_of_openai_is_honoured_or_refused(body, params):
    theirs = set(params.CompletionCreateParamsBase.__annotations__)
    assert theirs - set(body.model_fields) - set(REFUSED) == set()


def test_another_model_is_not_found(limited):
    assert limited.post("/v1/completions", json=PLAIN | {"model": "other"}).status_code == 404
    assert limited.get("/v1/nothing").status_code == 404


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"model": NaN}'])
def test_bodies_that_are_no_request(limited, content):
    answer = limited.post("/v1/completions", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert "\n" not in answer.json()["error"]["message"]


def test_a_body_that_is_too_large_is_refused_with_and_without_a_length(limited):
    body = json.dumps(PLAIN | {"prompt": "a " * 20000}).encode()
    assert limited.post("/v1/completions", content=body).status_code == 413
    pieces = (body[i : i + 4096] for i in range(0, len(body), 4096))
    assert limited.post("/v1/completions", content=pieces).status_code == 413


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted({*CompletionRequest.model_fields, *REFUSED} - {"stream"})),
    value=_VALUES,
    chat=st.booleans(),
)
def test_no_value_of_any_field_is_a_fault_of_the_server(limited, name, value, chat):
    path, body = ("chat/completions", CHAT) if chat else ("completions", PLAIN)
    answer = limited.post(f"/v1/{path}", json={"max_tokens": 2} | body | {name: value})
    assert answer.status_code in (200, 400, 404), answer.text


def test_a_key_is_asked_for(make_engine):
    with serving(make_engine(), key="secret") as base, httpx.Client(base_url=base) as client:
        assert client.post("/v1/completions", json=PLAIN).status_code == 401
        assert client.get("/v1/models", headers={"Authorization": "Bearer secre"}).status_code == 401
        assert client.get("/v1/models", headers={"Authorization": "Bearer secret"}).status_code == 200
        assert client.get("/health").status_code == 200


class Slow(NgramDrafter):
    """Waits before every draft, so that requests are under way when something happens."""

    def __init__(self, seconds=0.02):
        super().__init__()
        self.seconds = seconds

    def draft(self, batch, budget, noise):
        time.sleep(self.seconds)
        return super().draft(batch, budget, noise)


def settle(client):
    """Wait until nothing runs."""
    deadline = time.monotonic() + 30
    while "specproof_requests 0.0" not in client.get("/metrics").text:
        assert time.monotonic() < deadline, "a request is stuck"
        time.sleep(0.02)


def test_a_crowd_is_told_to_come_back(make_engine):
    with serving(make_engine(Slow()), most_waiting=2) as base, httpx.Client(base_url=base, timeout=30) as client:
        body = PLAIN | {"max_tokens": 30, "ignore_eos": True}
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: client.post("/v1/completions", json=body), range(8)))
        codes = [answer.status_code for answer in answers]
        assert set(codes) == {200, 429}
        assert all(a.headers["retry-after"] == "1" for a in answers if a.status_code == 429)
        settle(client)
        assert client.post("/v1/completions", json=PLAIN).status_code == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_caller_who_leaves_is_forgotten(make_engine, stream):
    engine = make_engine(Slow())
    body = PLAIN | {"max_tokens": 56, "ignore_eos": True, "stream": stream, "speculation": {"budget": 0}}
    with serving(engine) as base, httpx.Client(base_url=base, timeout=30) as client:
        if stream:
            with client.stream("POST", "/v1/completions", json=body) as answer:
                next(answer.iter_lines())
        else:
            with pytest.raises(httpx.ReadTimeout):
                client.post("/v1/completions", json=body, timeout=0.2)
        settle(client)
        assert engine.stats.tokens < 56, "it went on for nobody"
        assert engine.target.store.rows == []


def test_fifty_callers_some_of_whom_leave_get_the_engines_own_texts(make_engine):
    engine = make_engine(Slow(), max_batch=8)
    reference = make_engine()
    prompts = [" ".join("abcdefg"[(i * k) % 7] for k in range(2, 9)) for i in range(50)]
    expected = {
        i: reference.generate([prompt], SamplingParams(max_tokens=20, seed=i))[0].text
        for i, prompt in enumerate(prompts)
    }
    found = {}

    def call(i):
        body = {"model": "tiny", "prompt": prompts[i], "max_tokens": 20, "seed": i, "stream": True}
        with client.stream("POST", "/v1/completions", json=body) as answer:
            text = ""
            for number, line in enumerate(filter(None, answer.iter_lines())):
                if i % 5 == 0 and number == i // 5 % 4:
                    return  # leaves
                if line != "data: [DONE]":
                    text += "".join(c["text"] for c in json.loads(line[6:])["choices"])
            found[i] = text

    with serving(engine) as base, httpx.Client(base_url=base, timeout=60) as client:
        with ThreadPoolExecutor(50) as pool:
            list(pool.map(call, range(50)))
        settle(client)
    assert engine.target.store.rows == []
    assert set(found) >= {i for i in range(50) if i % 5}
    assert all(text == expected[i] for i, text in found.items())


def test_a_drafter_that_crashes_costs_nothing_but_a_warning(make_engine):
    class Crashing(NgramDrafter):
        def draft(self, batch, budget, noise):
            raise RuntimeError("boom")

    expected = make_engine().generate(["a b c a b"], SamplingParams(max_tokens=16, seed=1))[0].text
    with serving(make_engine(Crashing())) as base:
        answer = httpx.post(f"{base}/v1/completions", json=PLAIN | {"seed": 1}).json()
    assert answer["choices"][0]["text"] == expected
    assert "boom" in answer["specproof"]["choices"][0]["warnings"][0]


def test_logits_that_are_no_distribution_are_an_error_of_the_server(make_engine):
    engine = make_engine()
    with serving(engine) as base:
        with torch.no_grad():
            engine.target.model.get_output_embeddings().weight[3] = float("nan")
        answer = httpx.post(f"{base}/v1/completions", json=PLAIN)
        assert answer.status_code == 500
        assert "logits hold NaN" in answer.json()["error"]["message"]
        streamed = httpx.post(f"{base}/v1/completions", json=PLAIN | {"stream": True}).text
        assert "logits hold NaN" in streamed
        assert streamed.rstrip().endswith("data: [DONE]")


def test_an_engine_that_fails_leaves_nobody_waiting(make_engine, monkeypatch):
    engine = make_engine()
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def broken():
        raise ValueError("broken")

    with serving(engine) as base:
        engine.step = broken
        assert httpx.post(f"{base}/v1/completions", json=PLAIN).status_code == 500
        assert httpx.post(f"{base}/v1/completions", json=PLAIN).status_code == 503
        assert httpx.get(f"{base}/health").status_code == 503


@pytest.mark.parametrize(
    ("patience", "pause", "end"),
    [(60.0, 0.02, '"finish_reason": "length"'), (0.0, 0.4, "the server is shutting down")],
    ids=["patient", "impatient"],
)
@pytest.mark.parametrize("stream", [True, False])
def test_going_down_ends_texts_when_patience_does(make_engine, patience, pause, end, stream):
    body = PLAIN | {"max_tokens": 50, "ignore_eos": True, "stream": stream, "speculation": {"budget": 0}}
    engine = make_engine(Slow(pause))
    with ThreadPoolExecutor(1) as pool:
        with serving(engine, patience=patience) as base:
            answer = pool.submit(httpx.post, f"{base}/v1/completions", json=body, timeout=60)
            deadline = time.monotonic() + 30
            while not engine.stats.tokens:
                assert time.monotonic() < deadline, "it does not begin"
                time.sleep(0.01)
        text = answer.result().text
    if stream:
        assert text.endswith("data: [DONE]\n\n")
    assert end in text.replace('":"', '": "')
    assert answer.result().status_code == (503 if patience == 0 and not stream else 200)
    assert (engine.stats.tokens < 50) == (patience == 0)
    assert engine.target.store.rows == []


def test_a_caller_who_takes_nothing_does_not_keep_the_server(make_engine, monkeypatch):
    monkeypatch.setattr(listen, "_GRACE", 0)
    with ExitStack() as stack, serving(make_engine(), patience=0.0) as base:
        caller = stack.enter_context(socket.create_connection(base.removeprefix("http://").split(":")))
        # The head promises a body that never comes. That the server stops all the same, `serving` asserts.
        caller.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        time.sleep(0.2)


def test_more_completions_than_may_ever_wait_are_not_told_to_come_back(make_engine):
    with serving(make_engine(), most_waiting=2) as base:
        answer = httpx.post(f"{base}/v1/completions", json=PLAIN | {"n": 3})
    assert answer.status_code == 400
    assert "3 completions" in answer.json()["error"]["message"]
