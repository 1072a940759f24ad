"""Asking a server many things at once, politely and stubbornly."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx

from specproof.audit.endpoint.wire import Answer, Gathered, Malformed, complaint, read_event, read_whole
from specproof.errors import SpecproofError

_LONGEST_WAIT = 30.0
_RETRIED = (408, 409, 425, 429)  # and all from 500 on
# Counters that servers show at /metrics: drafted tokens, accepted tokens.
_COUNTERS = (
    ("vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"),
    ("specproof_drafted_total", "specproof_accepted_total"),
)


class Interrupted(SpecproofError):
    """A server that stopped answering; what it had answered is kept."""


class Refused(SpecproofError):
    """A request that the server will not serve, however often it is asked."""


class _Passing(Exception):
    """Something that may go away; `wait` is how long the server asks for, in seconds."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class Job(NamedTuple):
    """One text to be asked for: its arm, its number there, where, and with what body."""

    arm: str
    number: int
    url: str
    body: dict[str, Any]


@dataclass(frozen=True)
class Manners:
    """How a server is treated.

    Attributes:
        concurrency: requests at a time.
        rate: most requests a second; 0 sets no limit.
        timeout: seconds without a sign from the server until a request is given up.
        retries: how often a request is repeated after a failure that may pass.
        backoff: seconds before the first repetition; they double with each.
    """

    concurrency: int = 8
    rate: float = 0.0
    timeout: float = 60.0
    retries: int = 6
    backoff: float = 0.5

    def __post_init__(self) -> None:
        def need(ok: bool, name: str, allowed: str) -> None:
            if not ok:
                raise SpecproofError(f"{name}={getattr(self, name)!r} is not allowed: give {allowed}")

        need(self.concurrency >= 1, "concurrency", "a whole number >= 1")
        need(self.rate >= 0, "rate", "requests a second, or 0 for no limit")
        need(self.timeout > 0, "timeout", "seconds > 0")
        need(self.retries >= 0, "retries", "a whole number >= 0")
        need(self.backoff >= 0, "backoff", "seconds >= 0")


class Client:
    """Keeps the connections; to be used within one event loop.

    Args:
        manners: how servers are treated.
        key: sent as a bearer token, if there is one.
    """

    def __init__(self, manners: Manners, key: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=manners.concurrency)
        self.manners = manners
        self._http = httpx.AsyncClient(timeout=manners.timeout, headers=headers, limits=limits)
        self._next = 0.0

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def collect(self, jobs: Iterable[Job], keep: Callable[[Job, Answer], None]) -> None:
        """Ask for all jobs, some at a time; each answer is handed to `keep` as it arrives.

        Raises:
            Interrupted: a job failed for good. Those that were under way were still waited for and kept.
            Refused: the server does not serve such jobs.
        """
        waiting = iter(jobs)
        failures: list[SpecproofError] = []

        async def work() -> None:
            for job in waiting:
                if failures:
                    return
                try:
                    keep(job, await self.ask(job.url, job.body))
                except SpecproofError as failure:
                    failures.append(failure)

        await asyncio.gather(*(work() for _ in range(self.manners.concurrency)))
        if failures:
            raise failures[0]

    async def ask(self, url: str, body: dict[str, Any]) -> Answer:
        """One answer, however often it has to be asked for; see `collect` for what it raises."""
        for attempt in range(self.manners.retries + 1):
            try:
                await self._turn()
                return await self._once(url, body)
            except _Passing as failure:
                reason = str(failure)
                if attempt < self.manners.retries:
                    wait = self.manners.backoff * 2**attempt if failure.wait is None else failure.wait
                    await asyncio.sleep(min(wait, _LONGEST_WAIT))
        raise Interrupted(f"{url} failed {self.manners.retries + 1} times, at last with {reason}")

    async def models(self, base: str) -> list[str]:
        """Names of the models that a server has.

        Raises:
            SpecproofError: it does not tell.
        """
        try:
            answer = await self._http.get(f"{base}/models")
            answer.raise_for_status()
            return [str(model["id"]) for model in answer.json()["data"]]
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise Interrupted(f"{base}/models: {said}; is a server there, and is the address its base?") from error

    async def counters(self, base: str) -> tuple[int, int] | None:
        """Drafted and accepted tokens so far, of a server that shows them at /metrics; else None."""
        try:
            answer = await self._http.get(f"{base.removesuffix('/v1')}/metrics")
        except httpx.HTTPError:
            return None  # whoever has no such page says nothing by it
        text = answer.text if answer.status_code == 200 else ""
        for names in _COUNTERS:
            found = [re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)", text, re.MULTILINE) for name in names]
            if all(found):
                drafted, accepted = (int(sum(float(value) for value in values)) for values in found)
                return drafted, accepted
        return None

    async def _turn(self) -> None:
        """Wait until the rate allows a request."""
        if self.manners.rate:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + 1 / self.manners.rate
            await asyncio.sleep(start - now)

    async def _once(self, url: str, body: dict[str, Any]) -> Answer:
        try:
            async with self._http.stream("POST", url, json=body) as answer:
                if answer.status_code != 200:
                    await self._refused(answer, url)
                # Some servers answer in one piece whatever was asked.
                if "text/event-stream" not in answer.headers.get("content-type", ""):
                    return read_whole((await answer.aread()).decode(errors="replace"))
                gathered = Gathered()
                async for line in answer.aiter_lines():
                    if read_event(line, gathered):
                        return gathered.answer()
                raise Malformed("a stream that breaks off before its end")
        except Malformed as error:
            raise _Passing(str(error)) from error
        except httpx.TimeoutException as error:
            raise _Passing(f"no sign of life for {self.manners.timeout:g} s") from error
        except httpx.HTTPError as error:
            said = str(error) or type(error).__name__
            raise _Passing(f"a broken connection ({said})") from error

    async def _refused(self, answer: httpx.Response, url: str) -> None:
        message = complaint((await answer.aread()).decode(errors="replace"))
        status = answer.status_code
        if status in _RETRIED or status >= 500:
            raise _Passing(f"status {status} ({message})", _seconds(answer.headers.get("Retry-After")))
        raise Refused(f"{url} refuses with status {status}: {message}")


def _seconds(text: str | None) -> float | None:
    """Of a Retry-After in seconds; dates are not read."""
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None
