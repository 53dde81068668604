"""The bounded queue from the reactor's thread to an application's thread, for batches, never single messages."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred

from logd.client.blocking.reactor_thread import wait_running
from logd.client.consumer.dropped import afresh

T = TypeVar("T")


class ThreadQueue(Generic[T]):
    """A queue with ``put`` on the reactor's thread and ``get`` on another. It holds at most ``limit`` items."""

    def __init__(self, reactor: Any, limit: int) -> None:
        self._reactor = reactor
        self._limit = limit
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._error: Exception | None = None
        self._waiting: Deferred[None] | None = None

    def put(self, item: T) -> Deferred[None] | None:
        """Add an item; return None if there is room for more, else a Deferred that fires once there is."""
        with self._changed:
            self._items.append(item)
            self._changed.notify()
            if len(self._items) < self._limit:
                return None
            self._waiting = Deferred()
            return self._waiting

    def end(self, error: Exception | None = None) -> None:
        """End the queue: once its items are taken, ``get`` returns None, or raises ``error``."""
        with self._changed:
            self._ended = True
            self._error = error
            self._changed.notify_all()

    def drop(self, unwanted: Callable[[T], bool]) -> None:
        """Remove unwanted items and clear the end or error, on the reactor's thread."""
        with self._changed:
            self._items = deque(item for item in self._items if not unwanted(item))
            self._ended, self._error = False, None
        self._resume()

    def get(self, timeout: float | None = None) -> T | None:
        """Return the next item, waiting at most ``timeout`` seconds (for ever by default); None at the end.

        Raises TimeoutError, ReactorStopped, or the error that ended the queue.
        """
        with self._changed:
            if not wait_running(self._reactor, self._wait, timeout):
                raise TimeoutError(f"nothing came within {timeout:g} seconds")
            if not self._items:
                if self._error is not None:
                    raise afresh(self._error)
                return None
            item = self._items.popleft()
            if self._waiting is not None and len(self._items) * 2 <= self._limit:
                self._reactor.callFromThread(self._resume)
            return item

    def _wait(self, seconds: float) -> bool:
        return self._changed.wait_for(lambda: bool(self._items) or self._ended, seconds)

    def _resume(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)
