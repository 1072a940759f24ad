"""One engine, many callers: a thread steps the engine, callers get results as they come.

The engine is touched by its own thread only. Callers talk to it through a queue of orders, and it talks back
by calling what they subscribed with.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from specproof.engine.engine import Engine
from specproof.engine.requests import Request, Result
from specproof.errors import SpecproofError

# Called in the engine's thread with every result of a request; None as the result means that the engine failed.
Receiver = Callable[[Request, Result | None], None]


class Busy(SpecproofError):
    """The queue is full; the caller should come back later."""


class Closing(SpecproofError):
    """The server is going down and takes no more requests."""


class Failed(SpecproofError):
    """A request ended with an error, or the engine did."""


@dataclass
class _Order:
    """Requests to add together, or to cancel."""

    requests: Sequence[Request]
    receiver: Receiver | None = None


@dataclass
class Loop:
    """The thread that runs an engine for as long as there is work.

    Attributes:
        engine: not to be touched by others while the loop runs.
        most_waiting: most requests that may wait or run at once; further ones are refused.
    """

    engine: Engine
    most_waiting: int = 256
    _orders: deque[_Order] = field(default_factory=deque)
    _live: dict[int, tuple[Request, Receiver]] = field(default_factory=dict)
    _wake: threading.Condition = field(default_factory=threading.Condition)
    _count: int = 0  # requests that were submitted and are not done
    _closing: bool = False
    _cancelling: bool = False  # patience is over
    _thread: threading.Thread | None = None
    failure: BaseException | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._serve, name="specproof engine", daemon=True)
        self._thread.start()

    def submit(self, requests: Sequence[Request], receiver: Receiver) -> None:
        """Queue requests; the receiver hears of each of them until it is done.

        Raises:
            Busy: there are too many already.
            Closing: the loop is being stopped, or the engine failed.
            SpecproofError: they are more than ever may wait or run.
        """
        if len(requests) > self.most_waiting:
            raise SpecproofError(
                f"{len(requests)} completions in one request, and {self.most_waiting} is the most that may wait "
                "or run here; ask for fewer at once"
            )
        with self._wake:
            if self._closing or self.failure is not None:
                raise Closing("the server is shutting down" if self.failure is None else "the engine has failed")
            if self._count + len(requests) > self.most_waiting:
                raise Busy(f"{self._count} requests are waiting or running, and {self.most_waiting} is the most")
            self._count += len(requests)
            self._orders.append(_Order(requests, receiver))
            self._wake.notify()

    def cancel(self, requests: Sequence[Request]) -> None:
        """Cancel requests; those that are done already are left alone."""
        with self._wake:
            self._orders.append(_Order(requests))
            self._wake.notify()

    @property
    def count(self) -> int:
        """Requests that wait or run."""
        return self._count

    def stop(self, patience: float) -> None:
        """Take no more requests; let those under way finish for so many seconds, then cancel them."""
        with self._wake:
            self._closing = True
            self._wake.notify()
            self._wake.wait_for(lambda: self._count == 0, timeout=patience)
            self._cancelling = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(timeout=max(1.0, patience))

    def _serve(self) -> None:
        try:
            while self._take_orders():
                self._report(self.engine.step())
        except BaseException as failure:
            self.failure = failure
            self._abandon()
            raise

    def _take_orders(self) -> bool:
        """Carry out orders; waits for some while there is nothing to do. False once all is over."""
        with self._wake:
            while not self._orders and not self._live:
                if self._closing:
                    return False
                self._wake.wait()
            orders = list(self._orders)
            self._orders.clear()
        for order in orders:
            for request in order.requests:
                if order.receiver is not None:
                    self._live[id(request)] = (request, order.receiver)
                    self._add(request)
                elif id(request) in self._live:
                    self._cancel(request)
        if self._cancelling:
            for request, _ in list(self._live.values()):
                self._cancel(request)
        return True

    def _add(self, request: Request) -> None:
        try:
            self.engine.add(request)
        except SpecproofError as error:  # it can never be admitted
            request.end("error", str(error))
            self._report([request])

    def _cancel(self, request: Request) -> None:
        self.engine.cancel(request)
        self._report([request])

    def _report(self, requests: Sequence[Request]) -> None:
        for request in requests:
            _, receiver = self._live[id(request)]
            if request.done:
                del self._live[id(request)]
                with self._wake:
                    self._count -= 1
                    self._wake.notify_all()
            receiver(request, self.engine.result(request))

    def _abandon(self) -> None:
        """The engine failed: nobody is left waiting."""
        with self._wake:
            for order in self._orders:
                if order.receiver is not None:
                    self._live |= {id(request): (request, order.receiver) for request in order.requests}
            self._orders.clear()
            self._count = 0
            self._wake.notify_all()
        for request, receiver in self._live.values():
            receiver(request, None)
        self._live.clear()
