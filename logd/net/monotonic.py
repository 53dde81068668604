"""Monotonic time for a reactor: timers and durations are not affected when the system's clock is set."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class _MonotonicSeconds:
    """Seconds since the epoch at construction, advanced by a monotonic clock from then on."""

    __slots__ = ("_monotonic", "_offset")

    def __init__(self, now: float, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._offset = now - monotonic()

    def __call__(self) -> float:
        return self._monotonic() + self._offset


def use_monotonic_time(reactor: Any, monotonic: Callable[[], float] = time.monotonic) -> None:
    """Make a Twisted reactor schedule its calls by a monotonic clock from now on. A second call does nothing.

    Twisted schedules by the system's time of day. If that is set back by an hour, every timer of the process waits an
    hour longer; if it is set forward, time-outs fire at once. logd's commands, ``twistd logd`` and the blocking clients
    call this function for their own reactors. An application that runs brokers or clients on its own reactor calls it
    once, at any time: calls that are already scheduled keep their time, and ``reactor.seconds()`` continues without a
    step.
    """
    if not isinstance(reactor.seconds, _MonotonicSeconds):
        reactor.seconds = _MonotonicSeconds(reactor.seconds(), monotonic)
