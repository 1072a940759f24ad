"""`/specproof/watch`: one request, step by step, with what was drafted and what became of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from specproof.engine.engine import Engine
from specproof.engine.requests import Request, Result
from specproof.engine.text import Detokenizer
from specproof.engine.watch import Watched
from specproof.errors import SpecproofError
from specproof.server.inbox import Inbox, event
from specproof.server.loop import Loop
from specproof.server.schema import ChatRequest, CompletionRequest, Speculation, Strict
from specproof.server.translate import requests_of

if TYPE_CHECKING:
    from specproof.server.app import Settings

Json = dict[str, Any]


class WatchRequest(Strict):
    """Body of `/specproof/watch`; `chat` sends the prompt as a user's message."""

    prompt: str
    chat: bool = False
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: Annotated[int, Field(ge=0)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1024)] = 64
    speculation: Speculation = Speculation()

    def as_openai(self, model: str) -> CompletionRequest | ChatRequest:
        """The same as a request of the other endpoints."""
        shared = self.model_dump(exclude={"prompt", "chat"}) | {"model": model}
        if self.chat:
            return ChatRequest(**shared, messages=[{"role": "user", "content": self.prompt}])  # type: ignore[list-item]
        return CompletionRequest(**shared, prompt=self.prompt)


class Watch(Inbox):
    """An inbox for one watched request: every result comes with the steps since the last one.

    Args:
        request: not submitted yet.
        engine: its tokenizer and names are read only.
    """

    def __init__(self, request: Request, engine: Engine) -> None:
        super().__init__([request])
        request.watched, request.stats.trace = [], []
        self.engine = engine
        self._text = Detokenizer(engine.tokenizer)
        self._events: deque[list[Json]] = deque()

    def receive(self, request: Request, result: Result | None) -> None:
        """See `loop.Receiver`; the statistics are read here, before the next step changes them."""
        if result is not None:
            assert request.watched is not None
            assert request.stats.trace is not None
            records = zip(request.watched, request.stats.trace, strict=True)
            steps = [self._step(step) | {"reason": r.reason, "seconds": r.seconds} for step, r in records]
            request.watched.clear()
            request.stats.trace.clear()
            stats = result.stats.as_dict()
            events: list[Json] = [{"step": step, "stats": stats} for step in steps]
            if result.finish_reason is not None:
                events.append({"done": self._done(result), "stats": stats})
            self._events.append(events)
        super().receive(request, result)

    async def events(self) -> AsyncIterator[Json]:
        """One a step, then the last; raises as `results` does."""
        async for _ in self.results():
            for found in self._events.popleft():
                yield found

    def _step(self, step: Watched) -> Json:
        tokens = [
            {
                "text": self._text.push([step.tokens[node]]),
                "token": step.tokens[node],
                "kind": "accepted",
                "target": step.target[node],
                "draft": step.draft[node],
            }
            for node in step.path[: step.kept]
        ]
        if step.kept > len(step.path):
            tokens.append(self._extra(step) | {"text": self._text.push([step.extra])})
        return {
            "tokens": tokens,
            "parents": step.parents,
            "drafted": [
                {"text": self._spelled(token), "token": token, "target": target, "draft": draft}
                for token, target, draft in zip(step.tokens, step.target, step.draft, strict=True)
            ],
            "path": step.path,
            "extra": self._extra(step) | {"text": self._spelled(step.extra)},
            "kept": step.kept,
        }

    def _extra(self, step: Watched) -> Json:
        return {"token": step.extra, "kind": step.kind, "target": step.extra_target, "draft": step.extra_draft}

    def _spelled(self, token: int) -> str:
        text: str = self.engine.tokenizer.decode([token])
        return text

    def _done(self, result: Result) -> Json:
        return {
            "finish_reason": result.finish_reason,
            "text": result.text,
            "rest": self._text.finish(),
            "seed": result.seed,
            "rule": result.rule,
            "drafter": self.engine.drafter_name,
            "lossless": result.lossless,
            "warnings": list(result.warnings),
        }


def add_watch(app: FastAPI, loop: Loop, settings: Settings) -> None:
    """The route."""

    @app.post("/specproof/watch")
    async def watch(body: WatchRequest) -> Response:
        if loop.engine.tokenizer is None:
            raise SpecproofError("nothing to watch without a tokenizer: serve a model that has one")
        asked = body.as_openai(settings.model)
        (request,) = await asyncio.to_thread(requests_of, asked, loop.engine, settings.most_tokens)
        watching = Watch(request, loop.engine)
        loop.submit([request], watching.receive)
        return StreamingResponse(_stream(watching, loop), media_type="text/event-stream")


async def _stream(watching: Watch, loop: Loop) -> AsyncIterator[str]:
    try:
        async for found in watching.events():
            yield event(found)
    except SpecproofError as error:
        # The status has been sent, so the error is an event.
        yield event({"error": {"message": str(error)}})
    finally:
        loop.cancel(watching.requests)  # of a caller who went away
