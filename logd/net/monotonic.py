"""A reactor whose time nobody can set: timers and durations go on at the same pace when the system's clock is moved."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class _MonotonicSeconds:
    """Seconds since the epoch when made, and from then on what a monotonic clock counts."""

    __slots__ = ("_monotonic", "_offset")

    def __init__(self, now: float, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._offset = now - monotonic()

    def __call__(self) -> float:
        return self._monotonic() + self._offset


def use_monotonic_time(reactor: Any, monotonic: Callable[[], float] = time.monotonic) -> None:
    """Let a Twisted reactor schedule its calls by a monotonic clock, from this moment on. A second call does nothing.

    Twisted schedules by the system's time of day. When that is set back by an hour, every timer of the process waits an
    hour longer; when it is set forward, time-outs fire at once. logd's commands, ``twistd logd`` and the blocking
    clients do this for their own reactors. An application that runs brokers or clients on its own reactor calls it
    once, at any time: calls that are scheduled already keep their time, and ``reactor.seconds()`` goes on without a
    step.
    """
    if not isinstance(reactor.seconds, _MonotonicSeconds):
        reactor.seconds = _MonotonicSeconds(reactor.seconds(), monotonic)
