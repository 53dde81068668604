"""Deferreds of work that is done on threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from twisted.internet.defer import Deferred

from logd.interfaces import IThreads

T = TypeVar("T")


def on_thread(threads: IThreads, work: Callable[[], T]) -> Deferred[T]:
    """Run ``work()`` on a thread; fire with its result or its error. Cancelling ends only the wait."""
    result: Deferred[T] = Deferred()

    def done(value: T | None, error: BaseException | None) -> None:
        if error is not None:
            result.errback(error)
        else:
            result.callback(value)  # type: ignore[arg-type]  # the result of work, which may be None

    threads.run(work, done)
    return result
