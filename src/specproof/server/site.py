"""The page at `/`, its files, and what it asks first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from specproof.rules import RULES
from specproof.server.lab import rules_about
from specproof.server.loop import Loop

if TYPE_CHECKING:
    from specproof.server.app import Settings

PAGE = Path(__file__).parent / "page"
# Everything comes from this server; nothing is fetched from elsewhere, and no text can become a script.
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


class Files(StaticFiles):
    """The page's files with its headers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await super().__call__(scope, receive, with_headers)


def add_site(app: FastAPI, loop: Loop, settings: Settings) -> None:
    """The routes."""

    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", headers=HEADERS)

    @app.get("/specproof/about")
    def about() -> dict[str, Any]:
        engine = loop.engine
        return {
            "model": settings.model,
            "drafter": engine.drafter_name,
            "drawn": engine.drafter.drawn,
            "rule": engine.rule_name,
            "lossless": engine.lossless,
            "budget": engine.budget,
            "context": engine.target.context,
            "chat": bool(getattr(engine.tokenizer, "chat_template", None)),
            "most_tokens": settings.most_tokens,
            "rules": rules_about(),
            "audited": list(RULES),
        }

    app.mount("/page", Files(directory=PAGE), name="page")
