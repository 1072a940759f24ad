"""What stands before every route: the size of a body and the key."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from starlette.responses import JSONResponse


def failure(
    status: int, message: str, param: str | None = None, kind: str = "invalid_request_error", **headers: str
) -> JSONResponse:
    """An error in OpenAI's form; `param` is the field that is wrong."""
    content = {"error": {"message": message, "type": kind, "param": param, "code": status}}
    return JSONResponse(content, status, {name.replace("_", "-"): value for name, value in headers.items()})


class Guard:
    """ASGI middleware: refuses bodies that are too large and requests without the key, and counts answers.

    Args:
        app: what it stands before.
        most: bytes of a body.
        answered: told the route and the status of every answer.
        key: that callers must send as a bearer token; None lets everybody in. `/health` and the files of the
            page, which ask for the key themselves, are always open.
    """

    def __init__(self, app: Any, most: int, key: str | None, answered: Callable[[str, int], None]) -> None:
        self.app = app
        self.answered = answered
        self.most = most
        self.key = None if key is None else key.encode()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """See the ASGI specification."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def counting(message: Any) -> None:
            if message["type"] == "http.response.start":
                route = scope.get("route")
                self.answered(getattr(route, "path", "other"), message["status"])
            await send(message)

        await self._admit(scope, receive, counting)

    async def _admit(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        if self.key is not None and not _is_open(scope["path"]):
            given = headers.get(b"authorization", b"").removeprefix(b"Bearer ")
            if not secrets.compare_digest(given, self.key):
                refusal = failure(401, "no or a wrong API key; send it as 'Authorization: Bearer KEY'")
                await refusal(scope, receive, send)
                return
        body = b""
        while True:  # read here, so that a body without a length is bounded too
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if len(body) > self.most:
                refusal = failure(413, f"the body is larger than {self.most} bytes", Connection="close")
                await refusal(scope, receive, send)
                return
            if not message.get("more_body", False):
                break
        given_out = False

        async def replay() -> Any:
            nonlocal given_out
            if given_out:
                return await receive()
            given_out = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, send)


def _is_open(path: str) -> bool:
    return path in ("/", "/health") or path.startswith("/page/")
