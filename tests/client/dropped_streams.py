"""Helpers for tests of dropped streams: an application's loop that fails, and the warnings that were logged."""

from __future__ import annotations

from typing import Any

from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from zope.interface import implementer

from logd.client.consumer.stream import MessageStream


class OwnFaultError(Exception):
    """The error that an application's loop raises."""


def warnings_of(case: Any) -> list[LogEvent]:
    """Return a list to which every warning about dropped streams is added."""
    told: list[LogEvent] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        if event.get("log_namespace") == "logd.client.consumer.dropped.DroppedStreams":
            told.append(event)

    globalLogPublisher.addObserver(observe)
    case.addCleanup(globalLogPublisher.removeObserver, observe)
    return told


async def fail_in_a_loop(stream: MessageStream, after: int) -> None:
    """Read ``after`` messages and raise, as an application with a bug does."""
    async for _ in stream:
        after -= 1
        if not after:
            raise OwnFaultError
