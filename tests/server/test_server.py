"""The server through OpenAI's own client: what it says equals what the engine gives, streamed or not."""

import json

import pytest

from specproof.types import SamplingParams

PROMPT = "a b c a b c a b"


@pytest.fixture(scope="module")
def engine(make_engine):
    return make_engine()


def ours(engine, prompt=PROMPT, **params):
    return engine.generate([prompt], SamplingParams(**params))


def stream_text(stream):
    text, reasons, usage = {}, {}, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            piece = choice.text if hasattr(choice, "text") else choice.delta.content
            text[choice.index] = text.get(choice.index, "") + (piece or "")
            if choice.finish_reason:
                assert choice.index not in reasons, "a choice ended twice"
                reasons[choice.index] = choice.finish_reason
    return text, reasons, usage


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 3])
def test_streamed_and_whole_answers_equal_the_engine(client, engine, seed, n):
    asked = {"model": "tiny", "prompt": PROMPT, "max_tokens": 20, "seed": seed, "n": n, "temperature": 0.9}
    expected = ours(engine, max_tokens=20, seed=seed, n=n, temperature=0.9)
    whole = client.completions.create(**asked)
    assert [choice.text for choice in whole.choices] == [result.text for result in expected]
    assert [choice.finish_reason for choice in whole.choices] == [r.finish_reason for r in expected]
    options = {"include_usage": True}
    text, reasons, usage = stream_text(client.completions.create(**asked, stream=True, stream_options=options))
    assert text == {index: result.text for index, result in enumerate(expected)}
    assert reasons == {index: result.finish_reason for index, result in enumerate(expected)}
    for found in (whole.usage, usage):
        assert found.prompt_tokens == 8
        assert found.completion_tokens == sum(len(result.tokens) for result in expected)
        assert found.total_tokens == found.prompt_tokens + found.completion_tokens


def test_a_chat_streamed_and_whole(client, engine):
    asked = {"model": "tiny", "messages": [{"role": "user", "content": PROMPT}], "seed": 5, "max_tokens": 12}
    expected = ours(engine, max_tokens=12, seed=5)[0].text
    assert client.chat.completions.create(**asked).choices[0].message.content == expected
    assert stream_text(client.chat.completions.create(**asked, stream=True))[0] == {0: expected}


def test_a_chat_without_a_limit_goes_on_to_the_context(client):
    asked = {"model": "tiny", "messages": [{"role": "user", "content": "a"}], "extra_body": {"ignore_eos": True}}
    whole = client.chat.completions.create(**asked)
    assert whole.usage.total_tokens == 64
    assert whole.choices[0].finish_reason == "length"


def test_several_prompts_of_text_or_tokens(client, engine):
    texts = client.completions.create(model="tiny", prompt=["a b", "c d"], seed=1, n=2)
    tokens = client.completions.create(model="tiny", prompt=[[1, 2], [3, 4]], seed=1, n=2)
    expected = [r.text for p in ("a b", "c d") for r in ours(engine, p, seed=1, n=2, max_tokens=16)]
    assert [c.text for c in texts.choices] == [c.text for c in tokens.choices] == expected
    assert [c.index for c in texts.choices] == [0, 1, 2, 3]
    assert texts.usage.prompt_tokens == 4


def test_stop_strings_never_leak(client, engine):
    free = ours(engine, max_tokens=30, seed=3, ignore_eos=True)[0].text
    stop = " ".join(free.split()[6:8])
    expected = free[: free.index(stop)]
    asked = {"model": "tiny", "prompt": PROMPT, "max_tokens": 30, "seed": 3, "stop": stop}
    asked["extra_body"] = {"ignore_eos": True}
    assert client.completions.create(**asked).choices[0].text == expected
    text, reasons, _ = stream_text(client.completions.create(**asked, stream=True))
    assert (text, reasons) == ({0: expected}, {0: "stop"})


def test_logprobs_of_both_kinds_of_answers(client, engine):
    expected = ours(engine, max_tokens=6, seed=4, temperature=0.7, logprobs=2)[0].logprobs
    asked = {"model": "tiny", "seed": 4, "temperature": 0.7, "max_tokens": 6}
    chat = client.chat.completions.create(
        **asked, messages=[{"role": "user", "content": PROMPT}], logprobs=True, top_logprobs=2
    )
    content = chat.choices[0].logprobs.content
    assert [entry.logprob for entry in content] == pytest.approx([entry.raw for entry in expected], abs=1e-12)
    folded = [entry.logprob for entry in expected]
    assert [entry.folded_logprob for entry in content] == pytest.approx(folded, abs=1e-12)
    assert [len(entry.top_logprobs) for entry in content] == [2] * 6
    plain = client.completions.create(**asked, prompt=PROMPT, logprobs=2)
    raw = [entry.raw for entry in expected]
    assert plain.choices[0].logprobs.token_logprobs == pytest.approx(raw, abs=1e-12)
    streamed = [
        value
        for chunk in client.completions.create(**asked, prompt=PROMPT, logprobs=2, stream=True)
        for choice in chunk.choices
        if choice.logprobs
        for value in choice.logprobs.token_logprobs
    ]
    assert streamed == pytest.approx(raw, abs=1e-12)


def test_echo_with_logprobs_begins_with_the_prompt(client):
    asked = {"model": "tiny", "prompt": "a b", "max_tokens": 2, "logprobs": 0, "echo": True}
    answer = client.completions.create(**asked, extra_body={"ignore_eos": True})
    found = answer.choices[0]
    assert found.text.startswith("a b")
    assert found.logprobs.token_logprobs[0] is None
    assert len(found.logprobs.token_logprobs) == answer.usage.total_tokens == 4


def test_the_answer_says_what_was_used(http):
    body = {"model": "tiny", "prompt": PROMPT, "seed": 1, "speculation": {"enabled": False}}
    about = http.post("/v1/completions", json=body).json()["specproof"]
    assert (about["drafter"], about["rule"], about["lossless"]) == ("ngram", "coupling", True)
    assert about["choices"][0]["tokens_per_forward"] == 1
    body["speculation"] = {"budget": 2, "drafter": "ngram", "rule": "coupling"}
    depths = http.post("/v1/completions", json=body).json()["specproof"]["choices"][0]["acceptance_by_depth"]
    assert set(depths) <= {"1", "2"}


def test_a_schema_that_this_tokenizer_cannot_spell_is_refused_not_ignored(http):
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    answer = http.post("/v1/completions", json={"model": "tiny", "prompt": "a", "response_format": form})
    assert answer.status_code == 400
    assert "llguidance does not take this tokenizer" in answer.json()["error"]["message"]


def test_models_health_and_metrics(http):
    assert http.get("/health").json() == {"status": "ok"}
    model = http.get("/v1/models").json()["data"][0]
    assert (model["id"], model["max_model_len"]) == ("tiny", 64)
    http.post("/v1/completions", json={"model": "tiny", "prompt": PROMPT})
    text = http.get("/metrics").text
    for name in (
        "specproof_tokens_total",
        "specproof_tokens_per_forward",
        "specproof_running",
        "specproof_seconds",
    ):
        assert name in text
    assert 'specproof_answers_total{path="/v1/completions",status="200"}' in text


def test_events_are_well_formed_and_end_with_done(http):
    body = {"model": "tiny", "prompt": PROMPT, "stream": True, "max_tokens": 4}
    with http.stream("POST", "/v1/completions", json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    assert all(json.loads(line.removeprefix("data: ")) for line in lines[:-1])


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("usage", [False, True])
def test_only_usage_has_a_chunk_without_choices(http, n, usage):
    body = {"model": "tiny", "prompt": PROMPT, "stream": True, "max_tokens": 4, "n": n}
    body |= {"stream_options": {"include_usage": True}} if usage else {}
    events = http.post("/v1/completions", json=body).text.split("\n\n")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    assert [chunk for chunk in chunks if not chunk["choices"]] == (chunks[-1:] if usage else [])
    assert "usage" in chunks[-1] if usage else "usage" not in chunks[-1]
    assert len(chunks[-1]["specproof"]["choices"]) == n
    assert sum("specproof" in chunk for chunk in chunks) == 1 + usage


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/docs/oauth2-redirect"])
def test_no_page_of_the_framework_is_served(http, path):
    # They load scripts from elsewhere.
    assert http.get(path).status_code == 404


def test_the_schema_lists_the_routes(http):
    paths = http.get("/openapi.json").json()["paths"]
    assert {"/v1/completions", "/v1/chat/completions", "/v1/models", "/health", "/metrics"} <= set(paths)
