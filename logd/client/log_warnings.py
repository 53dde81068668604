"""Shows warnings of the log to people whose program has begun no log, such as commands and scripts."""

from __future__ import annotations

import logging
from collections.abc import Callable

from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogBeginner, globalLogPublisher
from zope.interface import implementer

#: The loggers of the warnings: brokers and trees that are away, partitions that cannot be read, clients and streams
#: that were not closed, and partitions that a group does not consume since a node in the tree cannot be read.
NAMESPACES = (
    "logd.aio.loop_clock.LoopClock",
    "logd.client.cluster.broker_outages.BrokerOutage",
    "logd.client.consumer.dropped.DroppedStreams",
    "logd.client.cluster.partition_outages.UnavailablePartitions",
    "logd.coord.groups.claims.Claims",
    "logd.coord.groups.registry_view.GroupView",
    "logd.coord.zookeeper.kept_session.KeptSession",
    "logd.coord.zookeeper.unanswered.UnansweredWarning",
)

#: The observers that show these warnings at present.
_told: list[ILogObserver] = []


@implementer(ILogObserver)
class _WarningObserver:
    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def __call__(self, event: LogEvent) -> None:
        if event.get("log_namespace") in NAMESPACES and event.get("log_level") in (LogLevel.warn, LogLevel.error):
            self._tell(formatEvent(event))


def tell_warnings(tell: Callable[[str], None]) -> Callable[[], None]:
    """Call ``tell`` with each of these warnings from now on; return the function that ends that."""

    observe = _WarningObserver(tell)
    globalLogPublisher.addObserver(observe)
    _told.append(observe)

    def end() -> None:
        globalLogPublisher.removeObserver(observe)
        _told.remove(observe)

    return end


def warn_by_logging() -> None:
    """Hand these warnings to the standard library's logger ``logd``, which shows them on stderr by default."""
    tell_warnings(_hand_to_logging)


def warn_without_log() -> None:
    """Hand these warnings to logger ``logd`` while the program has begun no Twisted log and nothing else shows them."""
    globalLogPublisher.addObserver(_without_log)


def _hand_to_logging(line: str) -> None:
    logging.getLogger("logd").warning("%s", line)


@implementer(ILogObserver)
class _WithoutLogObserver(_WarningObserver):
    def __call__(self, event: LogEvent) -> None:
        # Twisted has no public way to ask this: until a program begins its log, one observer keeps all events.
        if not _told and getattr(globalLogBeginner, "_temporaryObserver", None) is not None:
            super().__call__(event)


_without_log = _WithoutLogObserver(_hand_to_logging)
