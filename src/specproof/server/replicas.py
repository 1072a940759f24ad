"""The same application by Ray Serve: several replicas behind one address, each with an engine of its own."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specproof.engine.cluster import connected
from specproof.errors import SpecproofError

if TYPE_CHECKING:
    from fastapi import FastAPI

_NAME = "specproof"


@dataclass(frozen=True)
class Replicas:
    """Where and how replicas run.

    Attributes:
        address: of the Ray cluster; see `connected`.
        host, port: where they are reached.
        count: how many.
        threads: processors of each.
        gpus: of each.
        waiting: most requests at once at each.
        patience: seconds that requests have to finish when it ends.
    """

    address: str
    host: str
    port: int
    count: int = 1
    threads: int = 1
    gpus: int = 0
    waiting: int = 256
    patience: float = 30.0


@contextmanager
def serving(build: Callable[[], FastAPI], how: Replicas) -> Iterator[None]:
    """Replicas of an application, for as long as the block lasts.

    Args:
        build: makes the application; called in each replica. A call is one replica's from its first byte to its
            last; `/metrics` tells of the replica that it happened to reach.
        how: where and how.

    Raises:
        SpecproofError: Ray is not there, or a replica does not start.
    """
    # One processor is for Serve's own controller and proxy, if the Ray is of this process.
    ray = connected(how.address, how.count * how.threads + 1)
    from ray import serve

    try:
        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        serve.start(http_options={"host": how.host, "port": how.port})
        serve.run(_deployment(serve, build, how).bind(), name=_NAME, route_prefix="/")
        yield
    except (RuntimeError, ray.exceptions.RayError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise SpecproofError(f"Ray Serve could not start: {reason}; try without --ray to see more") from error
    finally:
        serve.shutdown()
        ray.shutdown()


def until_stopped() -> None:
    """Wait for an interrupt or a request to terminate."""
    stopped = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stopped.set())
    stopped.wait()


def replica(build: Callable[[], FastAPI]) -> Any:
    """The class of a replica as Ray Serve makes them: an application with its engine, and a look at its health."""
    from ray import serve

    class Engine:
        """Ray replaces it when its engine has failed."""

        def check_health(self) -> None:
            failure = self.app.state.loop.failure  # type: ignore[attr-defined]
            if failure is not None:
                raise RuntimeError(f"the engine has failed: {failure}")

    return serve.ingress(build)(Engine)


def _deployment(serve: Any, build: Callable[[], FastAPI], how: Replicas) -> Any:
    return serve.deployment(
        num_replicas=how.count,
        max_ongoing_requests=how.waiting + 8,  # beyond `waiting` the application itself says 429
        graceful_shutdown_timeout_s=how.patience,
        ray_actor_options={"num_cpus": how.threads, "num_gpus": how.gpus},
    )(replica(build))
