"""Limits to the wait for a Deferred, which is cancelled then, or goes on."""

from __future__ import annotations

from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.interfaces import Clock

T = TypeVar("T")

_log = Logger()


def with_timeout(clock: Clock, seconds: float, waiting: Deferred[T]) -> Deferred[T]:
    """Cancel ``waiting`` after ``seconds``, so that it fails with twisted.internet.defer.TimeoutError; return it."""
    return waiting.addTimeout(seconds, clock)  # type: ignore[arg-type]  # a Clock has callLater, the only method used


def fired_within(clock: Clock, seconds: float, doing: Deferred[Any]) -> Deferred[bool]:
    """Fire with True once ``doing`` has ended, or with False after ``seconds``; ``doing`` goes on.

    Never fails: a failure of ``doing`` is logged and counts as its end. Cancelling it leaves ``doing`` alone.
    """
    fired: Deferred[bool] = Deferred(lambda _: timer.cancel())
    timer = clock.callLater(max(0.0, seconds), fired.callback, False)

    def ended(result: object) -> None:
        if isinstance(result, Failure):
            _log.failure("an operation failed that was waited for", result)
        if timer.active():
            timer.cancel()
            fired.callback(True)

    doing.addBoth(ended)
    return fired
