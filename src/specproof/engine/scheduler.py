"""Who waits and who runs: requests join and leave between steps, first come first served."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from specproof.backends.sharing import share
from specproof.engine.requests import Request
from specproof.errors import SpecproofError
from specproof.types import Backend, TokenSequence

# Longer prompts are read in equal pieces of at least this length.
_PIECE = 64
# What a forward costs before its first column, in columns: padding up to this is cheaper than another forward.
_FORWARD = 32


class Scheduler:
    """Two queues and the rule of admission.

    Args:
        max_batch: most requests that run at once.
        kv_tokens: most entries that the key-value store may hold in each layer. It is a rectangle, so this
            bounds the number of running requests times the longest that any of them can become.
        prefill: most prompt tokens that a request reads in one forward, so that a long prompt does not
            keep the others waiting.
    """

    def __init__(self, max_batch: int, kv_tokens: int | None, prefill: int) -> None:
        self.max_batch = max_batch
        self.kv_tokens = kv_tokens
        self.prefill = prefill
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self._most = max_batch  # fewer while memory is short

    def add(self, request: Request) -> None:
        """Queue a request.

        Raises:
            SpecproofError: it can never be admitted, is done, or is here already.
        """
        if request.done or any(request is other for other in (*self.waiting, *self.running)):
            state = f"done ({request.sequence.finish_reason})" if request.done else "in the engine already"
            raise SpecproofError(f"this request is {state}; make another one with Engine.requests")
        if self.kv_tokens is not None and request.reserve > self.kv_tokens:
            raise SpecproofError(
                f"a request may grow to {request.reserve} tokens and kv_tokens is {self.kv_tokens}; "
                "shorten the prompt, lower max_tokens, or raise kv_tokens"
            )
        self.waiting.append(request)

    def admit(self) -> None:
        """Let waiting requests in, in order, as far as rows and memory go."""
        while self.waiting and len(self.running) < self._most and self._fits(self.waiting[0]):
            self.running.append(self.waiting.popleft())

    def preempt(self) -> Request | None:
        """Send the request that came last back to the front of the queue; None if only one runs.

        It keeps its tokens and reads them again later. Until another request is done, no more run at once
        than do now.
        """
        if len(self.running) < 2:
            return None
        request = self.running.pop()
        self.waiting.appendleft(request)
        self._most = len(self.running)
        return request

    def among_running(self, requests: list[Request]) -> list[Request]:
        """Those of the requests that run."""
        running = set(map(id, self.running))
        return [request for request in requests if id(request) in running]

    def remove(self, requests: list[Request]) -> None:
        """Requests that are done leave, wherever they are."""
        if not requests:
            return
        gone = set(map(id, requests))
        self.running = [request for request in self.running if id(request) not in gone]
        self.waiting = deque(request for request in self.waiting if id(request) not in gone)
        self._most = min(self.max_batch, self._most + len(requests))

    def read(self) -> tuple[list[Request], list[list[Request]]]:
        """Hand out the next piece of the prompts that are being read.

        Returns those that have more to read after it, and those whose first step can be taken, in groups that
        go through a forward together. All get pieces of one length, so that the short do not wait for the long.
        """
        reading = [request for request in self.running if request.unread]
        columns: dict[int, int] = {}
        if reading:
            piece = min(self.prefill, max(_PIECE, min(len(request.unread) for request in reading)))
            for request in reading:
                columns[id(request)] = min(piece, len(request.unread))
                request.read(piece)
        # One that had to wait again before its first step has no prompt left to read, and reads all anew.
        fresh = [request for request in self.running if not request.unread and not request.begun]
        widths = [columns.get(id(request), len(request.sequence.tokens)) for request in fresh]
        groups = [[fresh[place] for place in group] for group in alike(widths)]
        return [request for request in reading if request.unread], groups

    def share(self, requests: Sequence[Request], target: Backend) -> list[TokenSequence]:
        """The texts of requests that are about to be read; what they have in common with others is read once."""
        batch = [request.sequence for request in requests]
        share(target, batch, [request.sequence for request in self.running])
        return batch

    def _fits(self, request: Request) -> bool:
        if self.kv_tokens is None:
            return True
        longest = max([request.reserve, *(r.reserve for r in self.running)])
        return longest * (len(self.running) + 1) <= self.kv_tokens


def alike(widths: Sequence[int]) -> list[list[int]]:
    """Places of the widths, in groups that cost least: each is padded to its widest, and is one more forward."""
    order = sorted(range(len(widths)), key=widths.__getitem__)
    best: list[tuple[int, int]] = [
        (0, 0)
    ]  # for the first so many: the least cost, and where the last group begins
    for last in range(1, len(order) + 1):
        widest = widths[order[last - 1]]
        best.append(min((best[first][0] + _FORWARD + widest * (last - first), first) for first in range(last)))
    groups, last = [], len(order)
    while last:
        groups.append(order[best[last][1] : last])
        last = best[last][1]
    return groups[::-1]
