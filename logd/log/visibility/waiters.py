"""Waits for a partition's visible end to reach a position, for acknowledgements and long polls."""

from __future__ import annotations

import heapq
import itertools
import traceback
from collections.abc import Callable

from logd.interfaces import IFlushListener

#: Cancelled waits stay in the heap until it is larger than this and most of its waits are cancelled.
_TIDY_ABOVE = 64


class Wait:
    """One wait; ``cancel`` ends it."""

    __slots__ = ("_sequence", "_waiters", "listener", "position")

    def __init__(self, position: int, sequence: int, listener: IFlushListener, waiters: VisibilityWaiters) -> None:
        self.position = position
        self.listener: IFlushListener | None = listener
        self._sequence = sequence
        self._waiters = waiters

    def __lt__(self, other: Wait) -> bool:
        return (self.position, self._sequence) < (other.position, other._sequence)

    def cancel(self) -> None:
        """Prevent the call of the listener; harmless after the call."""
        if self.listener is not None:
            self.listener = None
            self._waiters.cancelled()


class VisibilityWaiters:
    """A heap of waits by position. A listener that raises is reported and does not affect the others."""

    __slots__ = ("_cancelled", "_heap", "_raised", "_sequence")

    def __init__(self, raised: Callable[[str], None]) -> None:
        """Make an empty heap; ``raised(traceback)`` is called for each listener that raises, which is a bug there."""
        self._raised = raised
        self._heap: list[Wait] = []
        self._sequence = itertools.count()
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def add(self, position: int, listener: IFlushListener) -> Wait:
        """Add a wait for ``position``; waits for the same position are called in the order in which they were added."""
        wait = Wait(position, next(self._sequence), listener, self)
        heapq.heappush(self._heap, wait)
        return wait

    def cancelled(self) -> None:
        """Count a cancelled wait, and rebuild the heap when there are many."""
        self._cancelled += 1
        if len(self._heap) > _TIDY_ABOVE and self._cancelled * 2 > len(self._heap):
            self._heap = [wait for wait in self._heap if wait.listener is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def reached(self, end: int) -> None:
        """Call every listener whose position is at or before ``end``. A listener may add waits or cancel others."""
        while self._heap and self._heap[0].position <= end:
            wait = heapq.heappop(self._heap)
            listener, wait.listener = wait.listener, None
            if listener is None:
                self._cancelled -= 1
            else:
                try:
                    listener.visible(end)
                except Exception:
                    self._raised(traceback.format_exc())

    def fail(self, error: BaseException) -> None:
        """Call every listener with ``error``."""
        heap, self._heap, self._cancelled = sorted(self._heap), [], 0
        listeners = [wait.listener for wait in heap]
        for wait in heap:
            wait.listener = None
        for listener in listeners:
            if listener is not None:
                try:
                    listener.failed(error)
                except Exception:
                    self._raised(traceback.format_exc())
