"""From a request's body to prompts and sampling parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specproof.engine.engine import Engine
from specproof.engine.loading import messages_tokens
from specproof.engine.requests import Request
from specproof.errors import SpecproofError
from specproof.server.schema import ChatRequest, Common, CompletionRequest, ResponseFormat
from specproof.types import SamplingParams

# Fields that mean what the sampling parameter of that name means.
_SAME = (
    *("temperature", "top_k", "top_p", "min_p", "n", "seed", "min_tokens", "stop_token_ids", "bad_words"),
    *("repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "prompt_logprobs"),
)
_DEFAULT_COMPLETION = 16  # OpenAI's


def requests_of(body: CompletionRequest | ChatRequest, engine: Engine, most: int | None) -> list[Request]:
    """The engine's requests, n for each prompt, in the order of the choices.

    Args:
        body: what was asked.
        engine: that will serve it.
        most: largest max_tokens that is allowed.

    Raises:
        SpecproofError: something does not fit the model, or asks for what this engine does not run.
    """
    _check_speculation(body, engine)
    made = []
    for prompt in _prompts(body, engine):
        made += engine.requests(prompt, _params(body, engine, prompt, most))
    for request in made:
        if body.speculation is not None:
            request.speculates = body.speculation.enabled
            request.budget = body.speculation.budget
    return made


def _prompts(body: CompletionRequest | ChatRequest, engine: Engine) -> list[list[int]]:
    if isinstance(body, ChatRequest):
        messages = [{"role": message.role, "content": message.text} for message in body.messages]
        return [messages_tokens(engine.tokenizer, messages)]
    prompt = body.prompt
    if isinstance(prompt, str):
        prompts: list[Any] = [prompt]
    else:
        prompts = [prompt] if prompt and isinstance(prompt[0], int) else list(prompt)
    if not prompts:
        raise SpecproofError("prompt is an empty list; give at least one")
    return [list(engine.tokenizer(p)["input_ids"]) if isinstance(p, str) else p for p in prompts]


def _params(
    body: CompletionRequest | ChatRequest, engine: Engine, prompt: list[int], most: int | None
) -> SamplingParams:
    values = {name: getattr(body, name) for name in _SAME if getattr(body, name) is not None}
    values |= {"stop": body.stops, "ignore_eos": body.ignore_eos}
    values["max_tokens"] = _max_tokens(body, engine, prompt, most)
    if isinstance(body, ChatRequest):
        if body.logprobs:
            values["logprobs"] = body.top_logprobs or 0
    elif body.logprobs is not None:
        values["logprobs"] = body.logprobs
        if body.echo:
            values["prompt_logprobs"] = body.logprobs
    return SamplingParams(**values, **_structure(body.response_format))


def _max_tokens(body: CompletionRequest | ChatRequest, engine: Engine, prompt: list[int], most: int | None) -> int:
    asked = body.max_tokens
    if isinstance(body, ChatRequest):
        if body.max_completion_tokens is not None and asked not in (None, body.max_completion_tokens):
            raise SpecproofError("max_tokens and max_completion_tokens differ; give max_completion_tokens alone")
        asked = body.max_completion_tokens if body.max_completion_tokens is not None else asked
    if asked is not None and most is not None and asked > most:
        raise SpecproofError(f"max_tokens={asked} is more than this server allows, which is {most}")
    if asked is not None:
        return asked
    room = max(0, engine.target.context - len(prompt))
    if isinstance(body, CompletionRequest):
        room = min(room, _DEFAULT_COMPLETION)
    return room if most is None else min(room, most)


def _structure(form: ResponseFormat | None) -> Mapping[str, Any]:
    if form is None or form.type == "text":
        return {}
    if form.json_schema is None:
        return {"json_schema": {"type": "object"}}
    return {"json_schema": form.json_schema.schema_}


def _check_speculation(body: Common, engine: Engine) -> None:
    asked = body.speculation
    if asked is None:
        return
    if asked.drafter not in (None, engine.drafter_name):
        raise SpecproofError(f"speculation.drafter={asked.drafter!r}: this server runs {engine.drafter_name!r}")
    if asked.rule not in (None, "auto", engine.rule_name):
        raise SpecproofError(f"speculation.rule={asked.rule!r}: this server runs {engine.rule_name!r}")
