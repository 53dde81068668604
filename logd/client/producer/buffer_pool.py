"""The memory that a producer may hold: a count of bytes, and a line of sends that wait for some to be given back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define
from twisted.internet.defer import Deferred

from logd.errors import ProducerBufferFull


@define(eq=False)
class BufferWaiter:
    """One place in the line: ``admit`` is called when its turn has come; ``counted`` against the line's limit."""

    admit: Callable[[], None] | None
    counted: bool


class BufferPool:
    """Counts bytes; admits in the order of arrival whatever had to wait.

    There is room while less than ``limit`` bytes are held: the last one admitted may go over it, by its own size.
    """

    def __init__(self, limit: int, max_waiting: int) -> None:
        self.used = 0
        self.limit = limit
        self._max_waiting = max_waiting
        self._line: deque[BufferWaiter] = deque()
        self._waiting = 0
        self._admitting = False

    @property
    def free(self) -> bool:
        """Whether something may be taken at once."""
        return self.used < self.limit and not self._line

    def take(self, count: int) -> None:
        """Hold ``count`` bytes."""
        self.used += count

    def give(self, count: int) -> None:
        """Let ``count`` bytes go and admit who can now be admitted."""
        self.used -= count
        if self._line:
            self._admit()

    def wait(self, admit: Callable[[], None]) -> BufferWaiter:
        """Join the line. Raises ProducerBufferFull when the line is as long as it may be."""
        if self._waiting >= self._max_waiting:
            raise ProducerBufferFull(
                f"{self.used} bytes are held (buffer_bytes = {self.limit}) and {self._waiting} sends wait already "
                f"(max_waiting = {self._max_waiting}): wait for ready() between sends"
            )
        place = BufferWaiter(admit, True)
        self._line.append(place)
        self._waiting += 1
        return place

    def leave(self, place: BufferWaiter) -> None:
        """Give a place in the line up, if it is still held."""
        if place.admit is not None:
            place.admit = None
            self._waiting -= place.counted
            if self._line[0] is place:
                self._admit()

    def ready(self) -> Deferred[None]:
        """A Deferred that fires once there is room, after all who wait already. Cancellable."""
        waiting: Deferred[None] = Deferred(lambda _: self.leave(place))
        place = BufferWaiter(lambda: waiting.callback(None), False)
        if self.free:
            place.admit = None
            waiting.callback(None)
        else:
            self._line.append(place)
        return waiting

    def open(self) -> None:
        """Admit everybody, room or not (at the end: they find the producer closed)."""
        self.limit = 1 << 62
        self._admit()

    def _admit(self) -> None:
        if self._admitting:  # who is admitted takes room, and may give some back at once
            return
        self._admitting = True
        line = self._line
        try:
            while line and (self.used < self.limit or line[0].admit is None):
                place = line.popleft()
                admit, place.admit = place.admit, None
                if admit is not None:
                    self._waiting -= place.counted
                    admit()
        finally:
            self._admitting = False
