"""A limit to the wait for one step of a bench, whose error names the step."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from twisted.internet import defer
from twisted.internet.defer import Deferred

from logd.deferreds.timeouts import with_timeout
from logd.errors import LogdError
from logd.interfaces import Clock

T = TypeVar("T")


async def within(clock: Clock, seconds: float, what: str, waiting: Awaitable[T]) -> T:
    """Return the result of ``waiting``, a Deferred or a coroutine; cancel it after ``seconds``.

    Raises LogdError then, which names ``what`` was waited for; else what ``waiting`` raises.
    """
    doing = waiting if isinstance(waiting, Deferred) else Deferred.fromCoroutine(_awaited(waiting))
    try:
        return await with_timeout(clock, seconds, doing)
    except defer.TimeoutError:
        raise LogdError(f"{what}: not done after {seconds:g} s") from None


async def _awaited(waiting: Awaitable[T]) -> T:
    return await waiting
