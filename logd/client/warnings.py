"""Brings the log's lines that a person has to see to one: commands and scripts begin no log."""

from __future__ import annotations

import logging
from collections.abc import Callable

from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogPublisher
from zope.interface import implementer

#: The loggers that speak of brokers and trees that are away, and of streams that were not closed.
NAMESPACES = (
    "logd.client.absence.Absence",
    "logd.client.dropping.DroppedStreams",
    "logd.coord.zookeeper.keptsession.KeptSession",
)


@implementer(ILogObserver)
class _ConnectionObserver:
    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def __call__(self, event: LogEvent) -> None:
        if event.get("log_namespace") in NAMESPACES and event.get("log_level") is LogLevel.warn:
            self._tell(formatEvent(event))


def tell_connections(tell: Callable[[str], None]) -> Callable[[], None]:
    """Call ``tell`` with each such line from now on; return what ends that."""

    observe = _ConnectionObserver(tell)
    globalLogPublisher.addObserver(observe)
    return lambda: globalLogPublisher.removeObserver(observe)


def warn_by_logging() -> None:
    """Hand these lines to the standard library's logger ``logd``, which shows them on stderr unless told not to."""
    tell_connections(lambda line: logging.getLogger("logd").warning("%s", line))
