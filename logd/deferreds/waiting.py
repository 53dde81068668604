"""Deferreds of callers that wait for the same event, which happens repeatedly or once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

T = TypeVar("T")


class WaitingDeferreds(Generic[T]):
    """Cancellable Deferreds, fired in the order in which they were made.

    A caller may cancel its own or other Deferreds at any time, also while they are being fired: each of the rest is
    fired all the same. Deferreds made meanwhile wait for the next event.
    """

    def __init__(self) -> None:
        self._waiting: dict[Deferred[T], None] = {}

    def __len__(self) -> int:
        """Return the number of Deferreds that wait."""
        return len(self._waiting)

    def new(self, on_cancel: Callable[[], object] | None = None) -> Deferred[T]:
        """Return a Deferred that waits. ``on_cancel()`` is called when it is cancelled, before it fails."""

        def cancelled(waiting: Deferred[T]) -> None:
            self._waiting.pop(waiting, None)
            if on_cancel is not None:
                on_cancel()

        waiting: Deferred[T] = Deferred(self._cancelled if on_cancel is None else cancelled)
        self._waiting[waiting] = None
        return waiting

    def fire(self, value: T) -> None:
        """Fire all waiting Deferreds with ``value``."""
        self._end(lambda waiting: waiting.callback(value))

    def fail(self, error: BaseException | Failure) -> None:
        """Fail all waiting Deferreds with ``error``."""
        self._end(lambda waiting: waiting.errback(error))

    def _end(self, end: Callable[[Deferred[T]], None]) -> None:
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            if not each.called:  # an earlier caller may have cancelled it
                end(each)

    def _cancelled(self, waiting: Deferred[T]) -> None:
        self._waiting.pop(waiting, None)


class OneTimeEvent:
    """An event that happens once. Callers wait for it before, and need not wait afterwards."""

    def __init__(self) -> None:
        self.happened = False
        self._waiting: WaitingDeferreds[None] = WaitingDeferreds()

    def wait(self) -> Deferred[None]:
        """Return a cancellable Deferred that fires when the event happens, or has fired if it has happened."""
        return succeed(None) if self.happened else self._waiting.new()

    def happen(self) -> None:
        """Let the event happen now. Has no effect a second time."""
        if not self.happened:
            self.happened = True
            self._waiting.fire(None)
