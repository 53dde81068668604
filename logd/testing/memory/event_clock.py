"""A clock like ``task.Clock`` that keeps many thousand calls in a heap, and makes them one at a time.

``task.Clock`` sorts all its calls at each new one; here a new call takes the logarithm of their number.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer


@implementer(IDelayedCall)
class Event:
    """A scheduled call."""

    __slots__ = ("arguments", "call", "clock", "keywords", "over", "time")

    def __init__(self, clock: EventClock, time: float, call: Callable[..., object], arguments: Any, kw: Any) -> None:
        self.clock = clock
        self.time = time
        self.call = call
        self.arguments = arguments
        self.keywords = kw
        self.over: type[Exception] | None = None

    def getTime(self) -> float:  # noqa: N802
        """See IDelayedCall."""
        return self.time

    def active(self) -> bool:
        """See IDelayedCall."""
        return self.over is None

    def cancel(self) -> None:
        """See IDelayedCall."""
        if self.over is not None:
            raise self.over
        self.over = AlreadyCancelled

    def reset(self, secondsFromNow: float) -> None:  # noqa: N803
        """See IDelayedCall."""
        raise NotImplementedError

    def delay(self, secondsLater: float) -> None:  # noqa: N803
        """See IDelayedCall."""
        raise NotImplementedError


@implementer(IReactorTime)
class EventClock:
    """IReactorTime. Calls of the same time are made in the order in which they were scheduled."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self._heap: list[tuple[float, int, Event]] = []
        #: Calls scheduled so far, and made so far.
        self._count = 0
        self.events = 0

    def seconds(self) -> float:
        """See IReactorTime."""
        return self._now

    def callLater(  # noqa: N802
        self,
        delay: float,
        callable: Callable[..., object],  # noqa: A002  # Twisted's name
        *args: Any,
        **kw: Any,
    ) -> Event:
        """See IReactorTime."""
        event = Event(self, self._now + delay, callable, args, kw)
        self._count += 1
        heapq.heappush(self._heap, (event.time, self._count, event))
        return event

    def getDelayedCalls(self) -> list[Event]:  # noqa: N802
        """See IReactorTime."""
        return [event for _, _, event in self._heap if event.over is None]

    def step(self, end: float | None = None) -> bool:
        """Make the next call if it is due by ``end``; else advance to ``end`` and return False."""
        heap = self._heap
        while heap and (end is None or heap[0][0] <= end):
            event = heapq.heappop(heap)[2]
            if event.over is None:
                self._now = max(self._now, event.time)
                event.over = AlreadyCalled
                self.events += 1
                event.call(*event.arguments, **event.keywords)
                return True
        if end is not None:
            self._now = max(self._now, end)
        return False
