"""What a request may hold: OpenAI's fields, ours, and nothing else.

Every field of OpenAI's schema is honoured, or refused by name when it asks for something. `REFUSED` are the
fields that are known and cannot be honoured, with the values that ask for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

REFUSED: dict[str, tuple[Any, ...]] = {
    "audio": (None,),
    "function_call": (None, "none"),
    "functions": (None, []),
    "modalities": (None, ["text"]),
    "moderation": (None,),
    "parallel_tool_calls": (None, True, False),
    "prediction": (None,),
    "prompt_cache_key": (None,),
    "prompt_cache_options": (None,),
    "prompt_cache_retention": (None,),
    "reasoning_effort": (None, "none"),
    "service_tier": (None, "auto", "default"),
    "store": (None, False),
    "tool_choice": (None, "none"),
    "tools": (None, []),
    "verbosity": (None,),
    "web_search_options": (None,),
    "best_of": (None,),
    "suffix": (None,),
}
# Fields that say who asks or why; they cannot change what comes out.
NEUTRAL = ("metadata", "safety_identifier", "user")
_WHY = {
    "tools": "this server has no tool-call parser: describe the tools in a message, and constrain the answer with "
    "response_format",
    "best_of": "only n completions are made: ask for n and choose",
    "suffix": "the model is only asked to continue",
}


class Strict(BaseModel):
    """Unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class StreamOptions(Strict):
    """Options of a stream."""

    include_usage: bool = False
    include_obfuscation: Literal[False] = False


class Speculation(Strict):
    """How this request is decoded; the law of its text does not depend on it."""

    enabled: bool = True
    drafter: str | None = None
    rule: str | None = None
    budget: Annotated[int, Field(ge=0)] | None = None


class JsonSchema(Strict):
    """A schema that the output has to follow."""

    name: str = ""
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class ResponseFormat(Strict):
    """Form of the output."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @model_validator(mode="after")
    def _whole(self) -> ResponseFormat:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("json_schema goes with type 'json_schema'")
        return self


class TextPart(Strict):
    """A piece of a message."""

    type: Literal["text"]
    text: str


class Message(Strict):
    """One message of a chat."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: str | None = None

    @property
    def text(self) -> str:
        """The content, its parts joined."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class Common(Strict):
    """What completions and chats share."""

    model: str
    temperature: float | None = None
    top_p: float | None = None
    n: Annotated[int, Field(ge=1, le=64)] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[int, float] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    # vLLM's names
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    min_tokens: int | None = None
    stop_token_ids: list[int] | None = None
    bad_words: list[str] | None = None
    ignore_eos: bool = False
    prompt_logprobs: int | None = None
    # ours
    speculation: Speculation | None = None
    # who asks; see NEUTRAL
    metadata: dict[str, str] | None = None
    safety_identifier: str | None = None
    user: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        for name in REFUSED.keys() & values.keys():
            if values[name] not in REFUSED[name]:
                raise ValueError(f"{name} cannot be honoured" + (f": {_WHY[name]}" if name in _WHY else ""))
        return {name: value for name, value in values.items() if name not in REFUSED}

    @model_validator(mode="after")
    def _fits(self) -> Common:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options goes with stream")
        return self

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


class CompletionRequest(Common):
    """Body of `/v1/completions`."""

    prompt: str | list[str] | list[int] | list[list[int]]
    max_tokens: int | None = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    echo: bool | None = None


class ChatRequest(Common):
    """Body of `/v1/chat/completions`."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None

    @model_validator(mode="after")
    def _logprobs(self) -> ChatRequest:
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs goes with logprobs: true")
        return self


def misfit(errors: Sequence[Mapping[str, Any]]) -> tuple[str, str | None]:
    """What a body has wrong, in one line, and the field where that is; every unknown field is named.

    Args:
        errors: pydantic's.
    """
    places = [".".join(map(str, error["loc"][1:])) for error in errors]
    strange = [place for place, error in zip(places, errors, strict=True) if error["type"] == "extra_forbidden"]
    if strange:
        return f"unknown {'fields' if strange[1:] else 'field'}: {', '.join(map(_meant, strange))}", strange[0]
    message = str(errors[0]["msg"]).removeprefix("Value error, ")
    return (f"{places[0]}: {message}", places[0]) if places[0] else (message, None)


def _meant(name: str) -> str:
    known = {*CompletionRequest.model_fields, *ChatRequest.model_fields, *Speculation.model_fields}
    close = get_close_matches(name.rpartition(".")[2], known, 1)
    return f"{name} (did you mean {close[0]}?)" if close else name
