"""From results to OpenAI's JSON: whole answers, and the chunks of a stream."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from specproof.engine.engine import Engine
from specproof.engine.logprobs import TokenLogprobs
from specproof.engine.requests import Request, Result
from specproof.server.schema import ChatRequest, CompletionRequest

_UNFINISHED = "\ufffd"
Json = dict[str, Any]


@dataclass
class Answer:
    """One answer in the making.

    Attributes:
        body: what was asked.
        engine: that serves it; its tokenizer and names are read only.
        model: the name that the server goes by.
        requests: one for each choice, in order.
    """

    body: CompletionRequest | ChatRequest
    engine: Engine
    model: str
    requests: Sequence[Request]
    _created: int = field(default_factory=lambda: int(time.time()))
    _number: str = field(default_factory=lambda: uuid.uuid4().hex)
    _told: dict[int, int] = field(default_factory=dict)  # tokens of each choice that were answered
    _offset: dict[int, int] = field(default_factory=dict)  # characters of each choice's tokens so far

    @property
    def chat(self) -> bool:
        """Whether it answers a chat."""
        return isinstance(self.body, ChatRequest)

    def whole(self, results: Sequence[Result]) -> Json:
        """The answer of all choices, in one piece."""
        kind = "chat.completion" if self.chat else "text_completion"
        choices = [self._choice(number, result) for number, result in enumerate(results)]
        return self._envelope(kind, choices) | {"usage": usage(results), "specproof": self._about(results)}

    def first(self) -> list[Json]:
        """Chunks that come before any token: the role, or the prompt."""
        if self.chat:
            delta = {"role": "assistant", "content": ""}
            return [self._chunk([_streamed(choice, delta, None, None)]) for choice in range(len(self.requests))]
        return []

    def chunk(self, number: int, result: Result) -> Json | None:
        """What is new of one choice; None if nothing is."""
        text = result.delta if number in self._told else self._echo(number) + result.delta
        logprobs = self._logprobs(number, result)
        if not text and logprobs is None and result.finish_reason is None:
            return None
        if self.chat:
            return self._chunk([_streamed(number, {"content": text}, result.finish_reason, logprobs)])
        choice = {"index": number, "text": text, "finish_reason": result.finish_reason}
        return self._chunk([choice | {"logprobs": logprobs}])

    def end(self, chunk: Json, results: Sequence[Result]) -> list[Json]:
        """The chunk that ends the last choice, with what was used; then one without choices, if usage was asked.

        OpenAI sends a chunk without choices in that case only, and callers rely on it.
        """
        chunk |= {"specproof": self._about(results)}
        options = self.body.stream_options
        if options is None or not options.include_usage:
            return [chunk]
        return [chunk, self._chunk([]) | {"specproof": chunk["specproof"], "usage": usage(results)}]

    def _choice(self, number: int, result: Result) -> Json:
        choice: Json = {"index": number, "finish_reason": result.finish_reason}
        choice["logprobs"] = self._logprobs(number, result)
        if self.chat:
            return choice | {"message": {"role": "assistant", "content": result.text, "refusal": None}}
        return choice | {"text": self._echo(number) + result.text}

    def _echo(self, number: int) -> str:
        if not isinstance(self.body, CompletionRequest) or not self.body.echo:
            return ""
        sequence = self.requests[number].sequence
        prompt = sequence.tokens[: sequence.prompt_length]
        text: str = self.engine.tokenizer.decode(prompt, skip_special_tokens=True)
        return text

    def _logprobs(self, number: int, result: Result) -> Json | None:
        """Log-probabilities of the tokens since the last call; the raw model's, as OpenAI and vLLM give them."""
        told = self._told.get(number)
        self._told[number] = len(result.tokens)
        if result.logprobs is None:
            return None
        new: list[tuple[int, TokenLogprobs | None]] = [(e.token, e) for e in result.logprobs[told or 0 :]]
        if told is None and result.prompt_logprobs is not None:
            prompt = self.requests[number].sequence.tokens[: result.prompt_tokens]
            new = [*zip(prompt, result.prompt_logprobs, strict=True), *new]
        if not new:
            return None
        if self.chat:
            return {"content": [self._entry(entry) for _, entry in new if entry is not None], "refusal": None}
        return self._legacy(number, new)

    def _entry(self, entry: TokenLogprobs) -> Json:
        likely = [self._spelled(token, logprob) for token, logprob in entry.raw_top]
        return self._spelled(entry.token, entry.raw) | {"folded_logprob": entry.logprob, "top_logprobs": likely}

    def _spelled(self, token: int, logprob: float) -> Json:
        text = self._text(token)
        spelled = None if _UNFINISHED in text else list(text.encode())
        return {"token": text, "logprob": logprob, "bytes": spelled}

    def _legacy(self, number: int, entries: Sequence[tuple[int, TokenLogprobs | None]]) -> Json:
        """The form of `/v1/completions`."""
        texts = [self._text(token) for token, _ in entries]
        offsets = []
        for text in texts:
            offsets.append(self._offset.get(number, 0))
            self._offset[number] = offsets[-1] + len(text)
        likely = [
            None if entry is None else {self._text(token): logprob for token, logprob in entry.raw_top}
            for _, entry in entries
        ]
        values = [None if entry is None else entry.raw for _, entry in entries]
        return {"tokens": texts, "token_logprobs": values, "top_logprobs": likely, "text_offset": offsets}

    def _text(self, token: int) -> str:
        text: str = self.engine.tokenizer.decode([token])
        return text

    def _envelope(self, kind: str, choices: list[Json]) -> Json:
        prefix = "chatcmpl" if self.chat else "cmpl"
        return {
            "id": f"{prefix}-{self._number}",
            "object": kind,
            "created": self._created,
            "model": self.model,
            "choices": choices,
        }

    def _chunk(self, choices: list[Json]) -> Json:
        return self._envelope("chat.completion.chunk" if self.chat else "text_completion", choices)

    def _about(self, results: Sequence[Result]) -> Json:
        """What was really used, and what it gained."""
        return {
            "drafter": self.engine.drafter_name,
            "rule": self.engine.rule_name,
            "lossless": self.engine.lossless,
            "choices": [
                {
                    "index": number,
                    "seed": result.seed,
                    "tokens_per_forward": result.stats.tokens_per_forward,
                    "drafted": result.stats.drafted,
                    "accepted": result.stats.accepted,
                    "acceptance": result.stats.acceptance,
                    "acceptance_by_depth": result.stats.acceptance_by_depth,
                    "warnings": list(result.warnings),
                }
                for number, result in enumerate(results)
            ],
        }


def usage(results: Sequence[Result]) -> Json:
    """Tokens in and out; a prompt counts once, however many completions it has."""
    prompt = sum(result.prompt_tokens for result in results if result.index == 0)
    completion = sum(len(result.tokens) for result in results)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _streamed(number: int, delta: Json, reason: str | None, logprobs: Json | None) -> Json:
    return {"index": number, "delta": delta, "finish_reason": reason, "logprobs": logprobs}
