"""Waits a bounded time for what a partition's leader is to send: a stream by itself waits for ever."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from twisted.internet import defer
from twisted.internet.defer import Deferred

from logd.deferreds.timeouts import with_timeout
from logd.errors import BrokerUnavailable
from logd.interfaces import Clock

T = TypeVar("T")

#: Seconds without anything after which a leader counts as gone.
PATIENCE = 20.0


async def with_patience(clock: Clock, work: Coroutine[Any, Any, T], complaint: str) -> T:
    """What ``work`` returns; raises BrokerUnavailable with ``complaint`` when that takes more than PATIENCE.

    It is cancelled then. What it raises itself is raised.
    """
    try:
        return await with_timeout(clock, PATIENCE, Deferred.fromCoroutine(work))
    except defer.TimeoutError as error:
        raise BrokerUnavailable(f"{complaint} within {PATIENCE:g} seconds") from error
