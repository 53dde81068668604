"""Threads whose work takes its time on a clock: waits for a disk, in a test without threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from zope.interface import implementer

from logd.interfaces import Clock, IThreads

T = TypeVar("T")


@implementer(IThreads)
class ClockThreads:
    """IThreads on a clock. ``delay()`` returns the seconds before a work runs, and again before its outcome."""

    def __init__(self, clock: Clock, delay: Callable[[], float] = lambda: 0.0) -> None:
        self._clock = clock
        self._delay = delay
        self._last_start = 0.0

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """See IThreads."""
        now = self._clock.seconds()
        self._last_start = start = max(self._last_start, now + self._delay())
        self._clock.callLater(start - now, self._work, work, done)

    def _work(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        try:
            result = work()
        except Exception as error:
            self._clock.callLater(self._delay(), done, None, error)
        else:
            self._clock.callLater(self._delay(), done, result, None)
