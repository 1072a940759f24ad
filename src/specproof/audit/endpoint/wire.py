"""What a server answered: read from JSON or from a stream of events, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


class Malformed(Exception):
    """An answer that is not what the API promises; it is asked for again."""


@dataclass(frozen=True)
class Row:
    """What a server says of the law of one token, in natural logarithms.

    Attributes:
        own: of the token that came out; None if it was not told.
        top: the likeliest tokens with theirs, likeliest first.
    """

    own: float | None
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Answer:
    """One text of a server.

    Attributes:
        text: what came out.
        finish: why it ended.
        tokens, ids: the tokens as texts and as numbers, as far as the server tells; () if it does not.
        rows: one for each token, if log-probabilities were asked for and given.
        count: tokens by the server's own count, the one that ended the text included.
        prompt_count: tokens of the prompt by the same count.
        drafted, accepted: drafted tokens, if the server tells.
    """

    text: str
    finish: str | None = None
    tokens: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    rows: tuple[Row, ...] = ()
    count: int | None = None
    prompt_count: int | None = None
    drafted: int | None = None
    accepted: int | None = None

    def dumped(self) -> str:
        """As JSON, for keeping."""
        return json.dumps(vars(self) | {"rows": [vars(row) for row in self.rows]})

    @staticmethod
    def loaded(text: str) -> Answer:
        """From JSON that `dumped` made."""
        values = json.loads(text)
        rows = tuple(Row(row["own"], tuple((key, value) for key, value in row["top"])) for row in values["rows"])
        return Answer(**values | {"rows": rows, "tokens": tuple(values["tokens"]), "ids": tuple(values["ids"])})


@dataclass
class Gathered:
    """An answer in pieces: one for a whole answer, one an event for a stream."""

    text: str = ""
    finish: str | None = None
    tokens: list[str] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    about: Json = field(default_factory=dict)
    seen: bool = False

    def take(self, body: Any) -> None:
        """Take in one JSON object.

        Raises:
            Malformed: it has another form.
        """
        if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
            raise Malformed(f"an answer without choices: {json.dumps(body)[:80]}")
        self.about |= {name: body[name] for name in ("usage", "specproof", "timings") if body.get(name)}
        for choice in body["choices"]:
            self.seen = True
            try:
                self._choice(choice)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise Malformed(f"a choice of another form: {json.dumps(choice)[:80]}") from error

    def _choice(self, choice: Json) -> None:
        part = choice.get("message") or choice.get("delta") or {}
        text = choice["text"] if "text" in choice else part.get("content")
        self.text += text or ""
        self.finish = choice.get("finish_reason") or self.finish
        logprobs = choice.get("logprobs")
        entries = (logprobs or {}).get("content")
        # llama.cpp tells the numbers of tokens beside their log-probabilities.
        beside = [entry["id"] for entry in entries or () if "id" in entry]
        self.ids += [int(token) for token in choice.get("token_ids") or beside]
        if entries is not None:
            for entry in entries:
                self._token(entry["token"], entry["logprob"], _pairs(entry.get("top_logprobs") or ()))
        elif logprobs and logprobs.get("tokens"):
            tops = logprobs.get("top_logprobs") or [None] * len(logprobs["tokens"])
            for token, own, top in zip(logprobs["tokens"], logprobs["token_logprobs"], tops, strict=True):
                self._token(token, own, tuple((top or {}).items()))

    def _token(self, token: str, own: float | None, top: Sequence[tuple[str, float]]) -> None:
        ordered = sorted(((str(key), float(value)) for key, value in top), key=lambda pair: -pair[1])
        self.tokens.append(str(token))
        self.rows.append(Row(None if own is None else float(own), tuple(ordered)))

    def answer(self) -> Answer:
        """The answer, complete.

        Raises:
            Malformed: it is not.
        """
        if not self.seen or self.finish is None:
            raise Malformed("an answer that breaks off before its end")
        usage = self.about.get("usage") or {}
        drafted, accepted = _speculation(self.about)
        return Answer(
            text=self.text,
            finish=self.finish,
            tokens=tuple(self.tokens),
            ids=tuple(self.ids),
            rows=tuple(self.rows),
            count=usage.get("completion_tokens"),
            prompt_count=usage.get("prompt_tokens"),
            drafted=drafted,
            accepted=accepted,
        )


def read_whole(text: str) -> Answer:
    """The answer in a body of JSON.

    Raises:
        Malformed: it is none.
    """
    gathered = Gathered()
    gathered.take(_json(text))
    return gathered.answer()


def read_event(line: str, gathered: Gathered) -> bool:
    """Take in a line of a stream; whether it was the last.

    Raises:
        Malformed: it is no event, or tells an error.
    """
    if not line.startswith("data:"):
        return False
    data = line.removeprefix("data:").strip()
    if data == "[DONE]":
        return True
    body = _json(data)
    if isinstance(body, dict) and body.get("error"):
        raise Malformed(f"an error in the stream: {_message(body)}")
    gathered.take(body)
    return False


def complaint(text: str) -> str:
    """The message in the body of a refusal, on one line."""
    try:
        body = json.loads(text)
    except ValueError:
        return " ".join(text.split())[:160] or "no reason given"
    return _message(body)


def _message(body: Any) -> str:
    error = body.get("error", body) if isinstance(body, dict) else body
    message = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(message).split())[:160]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Malformed(f"not JSON: {' '.join(text.split())[:80]!r}") from error


def _pairs(entries: Sequence[Json]) -> tuple[tuple[str, float], ...]:
    return tuple((entry["token"], entry["logprob"]) for entry in entries)


def _speculation(about: Json) -> tuple[int | None, int | None]:
    """Drafted and accepted tokens, from the places where servers tell them: ours, llama.cpp's, OpenAI's."""
    if choices := (about.get("specproof") or {}).get("choices"):
        return choices[0].get("drafted"), choices[0].get("accepted")
    timings = about.get("timings") or {}
    if "predicted_n" in timings:  # without speculation llama.cpp leaves the other two out
        return timings.get("draft_n", 0), timings.get("draft_n_accepted", 0)
    details = (about.get("usage") or {}).get("completion_tokens_details") or {}
    accepted, rejected = (details.get(f"{kind}_prediction_tokens") for kind in ("accepted", "rejected"))
    if accepted or rejected:
        return (accepted or 0) + (rejected or 0), accepted or 0
    return None, None
