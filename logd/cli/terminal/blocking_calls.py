"""Runs calls that may block for ever (a read of a terminal, a write to a full pipe) on a daemon thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.net.threads import ReactorThreads

T = TypeVar("T")


class BackgroundThread:
    """Runs calls one after another. A daemon thread: the reactor's own pool would keep an interrupted process alive."""

    def __init__(self, reactor: ReactorThreads) -> None:
        self._reactor = reactor
        self._calls: SimpleQueue[tuple[Callable[[], Any], Deferred[Any]]] = SimpleQueue()
        self._thread: Thread | None = None

    def run(self, call: Callable[..., T], *arguments: object) -> Deferred[T]:
        """Return a Deferred of the result of ``call(*arguments)``. Cancelling it stops only the waiting."""
        if self._thread is None:
            self._thread = Thread(target=self._work, daemon=True, name="logd-background")
            self._thread.start()
        result: Deferred[T] = Deferred()
        self._calls.put((partial(call, *arguments), result))
        return result

    def _work(self) -> None:
        while True:
            call, result = self._calls.get()
            try:
                value = call()
            except BaseException:
                self._reactor.callFromThread(result.errback, Failure())
            else:
                self._reactor.callFromThread(result.callback, value)
