"""The routes: OpenAI's completions and chats over one continuous batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response, StreamingResponse

from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.server.answers import Answer
from specproof.server.audits import add_audits
from specproof.server.guard import Guard, failure
from specproof.server.inbox import Inbox, event
from specproof.server.lab import add_lab
from specproof.server.loop import Busy, Closing, Failed, Loop
from specproof.server.metrics import Metrics
from specproof.server.schema import ChatRequest, CompletionRequest, misfit
from specproof.server.site import add_site
from specproof.server.translate import requests_of
from specproof.server.watch import add_watch

_LOOK = 0.25  # seconds between looks whether a caller who waits for a whole answer is still there


@dataclass(frozen=True)
class Settings:
    """How an engine is served.

    Attributes:
        model: name that callers give; another name is answered with 404.
        key: API key, or None.
        most_waiting: requests that may wait or run; beyond them 429.
        most_tokens: largest max_tokens, or None.
        most_bytes: of a body.
        patience: seconds that requests have to finish when the server goes down.
    """

    model: str
    key: str | None = None
    most_waiting: int = 256
    most_tokens: int | None = None
    most_bytes: int = 4 * 2**20
    patience: float = 30.0


def create_app(engine: Engine, settings: Settings) -> FastAPI:
    """The application; it starts and stops the engine's thread with itself."""
    loop = Loop(engine, settings.most_waiting)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        loop.start()
        yield
        await asyncio.to_thread(loop.stop, settings.patience)

    # FastAPI's own pages of the schema would fetch scripts from elsewhere; the schema itself stays.
    app = FastAPI(title="specproof", version=specproof_version(), lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.loop, app.state.metrics, app.state.settings = loop, Metrics(loop), settings
    _add_routes(app, loop, settings)
    add_watch(app, loop, settings)
    add_lab(app)
    add_audits(app)
    add_site(app, loop, settings)
    _add_failures(app)
    app.add_middleware(Guard, most=settings.most_bytes, key=settings.key, answered=app.state.metrics.answered)
    return app


def specproof_version() -> str:
    """Version of the package."""
    from specproof import __version__

    return __version__


def _add_routes(app: FastAPI, loop: Loop, settings: Settings) -> None:
    metrics: Metrics = app.state.metrics

    @app.get("/health")
    def health() -> Response:
        if loop.failure is not None:
            return failure(503, "the engine has failed", kind="server_error")
        return JSONResponse({"status": "ok"})

    @app.get("/metrics")
    def read_metrics() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        engine = loop.engine
        served = {"id": settings.model, "object": "model", "created": 0, "owned_by": "specproof"}
        about = {"drafter": engine.drafter_name, "rule": engine.rule_name, "lossless": engine.lossless}
        return {"object": "list", "data": [served | {"max_model_len": engine.target.context, "specproof": about}]}

    @app.post("/v1/completions")
    async def completions(body: CompletionRequest, request: Request) -> Response:
        return await _serve(body, request, loop, settings)

    @app.post("/v1/chat/completions")
    async def chat(body: ChatRequest, request: Request) -> Response:
        return await _serve(body, request, loop, settings)


async def _serve(
    body: CompletionRequest | ChatRequest, request: Request, loop: Loop, settings: Settings
) -> Response:
    if body.model != settings.model:
        return failure(404, f"no model {body.model!r} here; this server has {settings.model!r}")
    # Tokenizing a long prompt takes a while; the event loop serves others meanwhile.
    made = await asyncio.to_thread(requests_of, body, loop.engine, settings.most_tokens)
    answer, inbox = Answer(body, loop.engine, settings.model, made), Inbox(made)
    loop.submit(made, inbox.receive)
    if body.stream:
        return StreamingResponse(_stream(answer, inbox, loop), media_type="text/event-stream")
    return await _whole(answer, inbox, loop, request)


async def _whole(answer: Answer, inbox: Inbox, loop: Loop, request: Request) -> Response:
    async def all_results() -> None:
        async for _ in inbox.results():
            pass

    waiting = asyncio.create_task(all_results())
    try:
        while not (await asyncio.wait({waiting}, timeout=_LOOK))[0]:
            if await request.is_disconnected():
                return Response(status_code=499)
        await waiting
    finally:
        waiting.cancel()
        loop.cancel(inbox.requests)
    return JSONResponse(answer.whole(inbox.ordered()))


async def _stream(answer: Answer, inbox: Inbox, loop: Loop) -> AsyncIterator[str]:
    try:
        for chunk in answer.first():
            yield event(chunk)
        async for number, result in inbox.results():
            if (new := answer.chunk(number, result)) is not None:
                for chunk in answer.end(new, inbox.ordered()) if inbox.complete else [new]:
                    yield event(chunk)
    except SpecproofError as error:
        # The status has been sent, so the error is an event.
        yield event({"error": {"message": str(error), "type": "server_error", "param": None, "code": 500}})
    finally:
        loop.cancel(inbox.requests)  # of a caller who went away
    yield "data: [DONE]\n\n"


def _add_failures(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> Response:
        return failure(400, *misfit(error.errors()))

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        return failure(error.status_code, str(error.detail))

    @app.exception_handler(Busy)
    async def busy(_: Request, error: Busy) -> Response:
        return failure(429, f"{error}; come back later", kind="rate_limit_error", Retry_After="1")

    @app.exception_handler(Closing)
    async def closing(_: Request, error: Closing) -> Response:
        return failure(503, str(error), kind="server_error", Retry_After="10")

    @app.exception_handler(Failed)
    async def failed(_: Request, error: Failed) -> Response:
        return failure(500, str(error), kind="server_error")

    @app.exception_handler(SpecproofError)
    async def unfit(_: Request, error: SpecproofError) -> Response:
        return failure(400, str(error))
