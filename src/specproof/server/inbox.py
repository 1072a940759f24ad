"""From the engine's thread to a caller's event loop."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

from specproof.engine.requests import Request, Result
from specproof.server.loop import Closing, Failed

_LOG = logging.getLogger("specproof.server")


class Inbox:
    """Results of some requests, from the engine's thread to the caller's event loop."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests
        self._number = {id(request): number for number, request in enumerate(requests)}
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[tuple[int, Result | None]] = asyncio.Queue()
        self._left = set(range(len(requests)))
        self.latest: dict[int, Result] = {}

    def receive(self, request: Request, result: Result | None) -> None:
        """See `loop.Receiver`."""
        entry = (self._number[id(request)], result)
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, entry)
        except RuntimeError:  # the caller's event loop is gone, and the caller with it
            _LOG.warning("a result came after the server had closed")

    async def results(self) -> AsyncIterator[tuple[int, Result]]:
        """Every result with the number of its request, until all are done.

        Raises:
            Failed: the engine failed, or a request ended with an error.
            Closing: the server is going down.
        """
        while self._left:
            number, result = await self._queue.get()
            if result is None:
                raise Failed("the engine has failed; see the server's log")
            if result.error is not None:
                raise Failed(result.error)
            if result.finish_reason == "cancelled":
                raise Closing("the server is shutting down")
            self.latest[number] = result
            if result.finish_reason is not None:
                self._left.discard(number)
            yield number, result

    @property
    def complete(self) -> bool:
        """Whether the last result of every request was given out."""
        return not self._left

    def ordered(self) -> list[Result]:
        """The last result of each request."""
        return [self.latest[number] for number in range(len(self.requests))]


def event(content: dict[str, Any]) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"
