"""A bound on the wait for a partition's leader; a stream by itself waits for ever."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from twisted.internet import defer
from twisted.internet.defer import Deferred

from logd.deferreds.timeouts import with_timeout
from logd.errors import BrokerUnavailable
from logd.interfaces import Clock

T = TypeVar("T")

#: Seconds without an answer after which a leader counts as gone.
PATIENCE = 20.0


async def with_patience(clock: Clock, work: Coroutine[Any, Any, T], complaint: str) -> T:
    """Return the result of ``work``; raise BrokerUnavailable with ``complaint`` when it takes more than PATIENCE.

    ``work`` is cancelled then. Its own errors are raised.
    """
    try:
        return await with_timeout(clock, PATIENCE, Deferred.fromCoroutine(work))
    except defer.TimeoutError as error:
        raise BrokerUnavailable(f"{complaint} within {PATIENCE:g} seconds") from error
