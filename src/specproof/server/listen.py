"""What listens: uvicorn's server, which goes down within the patience of the application."""

from __future__ import annotations

import math
import socket
import threading

import uvicorn
from fastapi import FastAPI

from specproof.server.app import Settings
from specproof.server.loop import Loop

_GRACE = 5  # seconds in which callers whose text was cut off have to take what was sent


class Listener(uvicorn.Server):
    """Serves an application of `create_app` until told to exit.

    Uvicorn shuts the application down once all connections are closed, and a text that is being written keeps its
    connection open; so the engine's loop is stopped as soon as the server is.

    Args:
        app: made by `create_app`.
        host, port: to listen at; port 0 is any free one.
        log_level: of uvicorn.
    """

    def __init__(self, app: FastAPI, host: str = "127.0.0.1", port: int = 0, log_level: str = "error") -> None:
        settings: Settings = app.state.settings
        self.loop: Loop = app.state.loop
        self.patience = settings.patience
        # A caller who takes nothing would hold its connection for ever.
        grace = math.ceil(self.patience) + _GRACE
        super().__init__(
            uvicorn.Config(app, host=host, port=port, log_level=log_level, timeout_graceful_shutdown=grace)
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`."""
        # Not a thread of asyncio's: a second interrupt leaves without waiting for it.
        threading.Thread(target=self.loop.stop, args=(self.patience,), daemon=True).start()
        await super().shutdown(sockets)
