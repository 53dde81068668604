"""Waits of produce requests for flushes: from the append of a set to its acknowledgement."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import define, field
from zope.interface import implementer

from logd.errors import RequestTimedOut, UnknownError, WireError
from logd.interfaces import IFlushListener
from logd.log.partition import PartitionLog
from logd.log.visibility.waiters import Wait
from logd.protocol.requests.produce_ack import ProducedPart

if TYPE_CHECKING:
    from logd.broker.requests.produce import ProduceRequests
    from logd.broker.requests.produce_request import AcknowledgedProduceRequest

#: The longest wait of a request, in milliseconds.
LONGEST_WAIT_MS = 300_000


@implementer(IFlushListener)
@define(eq=False)
class FlushListener:
    """The flush listener of the parts that go to one log, or of one part that waits for copies."""

    _request: AcknowledgedProduceRequest
    key: Any
    #: The parts, in the order of the request.
    indexes: list[int]
    #: The greatest end of them in the log.
    end: int
    #: None if the log did not have to wait.
    wait: Wait | None = field(default=None, init=False)
    _log: PartitionLog | None = field(default=None, init=False)

    def wait_for(self, log: PartitionLog) -> None:
        """Wait until the log is visible up to the greatest end that there is now."""
        self._log = log
        self.wait = log.wait_visible(self.end, self)

    def is_flushed(self, end: int) -> bool:
        """Return whether a part that ends there is flushed, although others still wait."""
        return self._log is not None and self._log.visible_end >= end

    def visible(self, end: int) -> None:
        log = self._log
        if log is not None and end < self.end:
            self.wait_for(log)
        else:
            self._request.flushed(self)

    def failed(self, error: BaseException) -> None:
        self._request.not_flushed(self, error)

    def cancel(self) -> None:
        """Stop listening."""
        if self.wait is not None:
            self.wait.cancel()


@implementer(IFlushListener)
class LoneFlush:
    """The wait of one part, from its append to its answer. Its own listener, and the key of its deadline."""

    __slots__ = ("_answer", "_producing", "_result", "_wait")

    def __init__(
        self, producing: ProduceRequests, result: ProducedPart, answer: Callable[[ProducedPart], None]
    ) -> None:
        self._producing = producing
        #: The result of the part once it is flushed.
        self._result = result
        self._answer = answer
        self._wait: Wait | None = None

    def begin(self, log: PartitionLog, timeout_ms: int) -> None:
        """Wait until ``log`` is visible up to the part's end, for no longer than the request says."""
        producing = self._producing
        producing.unanswered.watch(self, seconds_of(timeout_ms))
        self._wait = log.wait_visible(self._result.next_position, self)
        producing.routing.due_now(log)

    def visible(self, end: int) -> None:
        self._settle(self._result)

    def failed(self, error: BaseException) -> None:
        topic, partition = self._result[:2]
        self._producing.mark_broken(topic, partition)
        self._settle(ProducedPart(topic, partition, code_of(error)))

    def time_out(self) -> None:
        """Answer that the part was not flushed in time."""
        self.cancel()
        topic, partition = self._result[:2]
        self._settle(ProducedPart(topic, partition, RequestTimedOut.code))

    def cancel(self) -> None:
        """Stop waiting; no answer is sent."""
        if self._wait is not None:
            self._wait.cancel()

    def _settle(self, result: ProducedPart) -> None:
        self._producing.unanswered.forget(self)
        self._answer(result)


def seconds_of(timeout_ms: int) -> float:
    """Return how long a request may wait by its own words: for ever if its number is not positive."""
    return min(timeout_ms, LONGEST_WAIT_MS) / 1000 if timeout_ms > 0 else math.inf


def code_of(error: BaseException) -> int:
    """Return the error code with which a part is answered."""
    return error.code if isinstance(error, WireError) else UnknownError.code
