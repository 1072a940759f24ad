"""Ray, for the commands that spread engines over processes and machines. No engine knows of it."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from specproof.errors import SpecproofError

LOCAL = "local"
_TRIES = 3  # a busy machine may not bring up a Ray of its own in Ray's fixed time
_PATIENCE = 5.0  # seconds for a cluster to answer; Ray itself waits for minutes
_STORE = 128 * 2**20  # bytes; what passes through it is small


def connected(address: str, processors: int) -> Any:
    """The module `ray`, connected; to be shut down by the caller.

    Args:
        address: of a cluster, "auto" for the one that this machine belongs to, or "local" for one of its own.
        processors: of a Ray of its own.

    Raises:
        SpecproofError: Ray is not installed, or not there.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
    try:
        import ray
    except ImportError as error:
        raise SpecproofError("ray is not installed: pip install 'specproof[ray]'") from error
    if address not in (LOCAL, "auto"):
        _knock(address)
    options: dict[str, Any] = {"address": address, "logging_level": logging.ERROR, "log_to_driver": False}
    if address == LOCAL:
        options |= {"num_cpus": processors, "include_dashboard": False, "object_store_memory": _STORE}
    for left in reversed(range(_TRIES if address == LOCAL else 1)):
        try:
            ray.init(**options)
            return ray
        except Exception as error:  # Ray raises bare ones, as when a node does not come up in time
            ray.shutdown()
            if not left:
                reason = str(error).strip().splitlines()[0]
                raise SpecproofError(f"no Ray at {address!r}: {reason}; start one, or give 'local'") from error
    raise AssertionError("unreachable")


def _knock(address: str) -> None:
    """Raise unless somebody listens at an address."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 1 << 16):
        raise SpecproofError(f"no Ray address: {address!r}; give HOST:PORT, ray://HOST:PORT, 'auto' or 'local'")
    try:
        socket.create_connection((host, int(port)), _PATIENCE).close()
    except OSError as error:
        raise SpecproofError(
            f"no Ray at {address!r}: {error.strerror or error}; start one, or give 'local'"
        ) from error
