"""The memory of a producer: the bytes that it holds, and the queue of callers that wait for free bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define
from twisted.internet.defer import Deferred, succeed

from logd.errors import ProducerBufferFull


@define(eq=False)
class BufferWaiter:
    """One place in the queue. ``admit`` is called when it fits; ``counted`` places count against ``max_waiting``."""

    admit: Callable[[], None] | None
    counted: bool


class BufferPool:
    """A counter of bytes that admits waiting callers in the order of their arrival.

    There is room while fewer than ``limit`` bytes are held, so the last caller admitted may exceed it by its own size.
    """

    def __init__(self, limit: int, max_waiting: int) -> None:
        self.used = 0
        self.limit = limit
        #: The bytes below which a caller need not wait: ``limit``, but 0 while others wait already.
        self.room = limit
        self._max_waiting = max_waiting
        #: The callers that wait, in order.
        self.line: deque[BufferWaiter] = deque()
        #: Bytes that callers in the queue hold already.
        self.behind = 0
        self._waiting = 0
        self._admitting = False

    @property
    def free(self) -> bool:
        """Return whether bytes may be taken at once."""
        return self.used < self.room

    def take(self, count: int) -> None:
        """Hold ``count`` bytes."""
        self.used += count

    def give(self, count: int) -> None:
        """Release ``count`` bytes and admit the waiting callers for which there is room now."""
        self.used -= count
        if self.line:
            self._admit()

    @property
    def sends_wait(self) -> bool:
        """Return whether sends, or messages behind them, wait for room."""
        return self._waiting > 0 or self.behind > 0

    def wait_behind(self, admit: Callable[[], None]) -> BufferWaiter:
        """Join the queue behind sends that wait, with bytes that the caller adds to ``behind``."""
        return self._join(BufferWaiter(admit, False))

    def wait(self, admit: Callable[[], None]) -> BufferWaiter:
        """Join the queue. Raises ProducerBufferFull when ``max_waiting`` callers wait already."""
        if self._waiting >= self._max_waiting:
            raise ProducerBufferFull(
                f"{self.used} bytes are held (buffer_bytes = {self.limit}) and {self._waiting} sends wait already "
                f"(max_waiting = {self._max_waiting}): wait for ready() between sends"
            )
        self._waiting += 1
        return self._join(BufferWaiter(admit, True))

    def leave(self, place: BufferWaiter) -> None:
        """Leave the queue, if the place was not admitted yet."""
        if place.admit is not None:
            place.admit = None
            self._waiting -= place.counted
            line = self.line
            while line and line[-1].admit is None:
                line.pop()
            if not line:
                self.room = self.limit
            elif line[0] is place:
                self._admit()

    def ready(self) -> Deferred[None]:
        """Return a cancellable Deferred that fires once there is room, after all callers that wait already."""
        if self.free:
            return succeed(None)
        waiting: Deferred[None] = Deferred(lambda _: self.leave(place))
        place = self._join(BufferWaiter(lambda: waiting.callback(None), False))
        return waiting

    def open(self) -> None:
        """Admit all callers, room or not. For the end: they find the producer closed."""
        self.limit = self.room = 1 << 62
        self._admit()

    def _join(self, place: BufferWaiter) -> BufferWaiter:
        self.line.append(place)
        self.room = 0
        return place

    def _admit(self) -> None:
        if self._admitting:  # an admitted caller takes bytes, and may release some at once
            return
        self._admitting = True
        line = self.line
        try:
            while line and (self.used < self.limit or line[0].admit is None):
                place = line.popleft()
                if not line:
                    self.room = self.limit
                admit, place.admit = place.admit, None
                if admit is not None:
                    self._waiting -= place.counted
                    admit()
        finally:
            self._admitting = False
