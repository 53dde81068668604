"""Shows warnings of the log to people whose program has begun no log, such as commands and scripts."""

from __future__ import annotations

import logging
from collections.abc import Callable

from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogBeginner, globalLogPublisher
from zope.interface import implementer

#: The loggers of the warnings: brokers and trees that are away, partitions that cannot be read, topics that cannot be
#: sent to, clients and streams that were not closed, and partitions that a group does not consume since a node in the
#: tree cannot be read.
NAMESPACES = (
    "logd.aio.loop_clock.LoopClock",
    "logd.client.cluster.broker_outages.BrokerOutage",
    "logd.client.consumer.dropped.DroppedStreams",
    "logd.client.cluster.partition_outages.UnavailablePartitions",
    "logd.client.producer.topic_searches.TopicSearches",
    "logd.coord.groups.claims.Claims",
    "logd.coord.groups.registry_view.GroupView",
    "logd.coord.zookeeper.kept_session.KeptSession",
    "logd.coord.zookeeper.unanswered.UnansweredWarning",
)

#: The loggers of what programs are told besides: messages that are lost or passed, and what was given up. Commands say
#: these in lines of their own.
MORE_FOR_PROGRAMS = (
    "logd.client.audit.publisher.AuditPublisher",
    "logd.client.consumer.fetching.losses.PartitionLosses",
    "logd.client.consumer.group.reader.Group",
    "logd.client.dead_letters.writer.DeadLetters",
    "logd.client.producer.acks_zero_path._Outbox",
    "logd.client.producer.formats.TopicFormats",
    "logd.client.producer.unfinished.Unfinished",
)

#: The observers that show these warnings at present.
_told: list[ILogObserver] = []


@implementer(ILogObserver)
class _WarningObserver:
    def __init__(self, tell: Callable[[str], None], namespaces: tuple[str, ...]) -> None:
        self._tell = tell
        self._namespaces = namespaces

    def __call__(self, event: LogEvent) -> None:
        if event.get("log_namespace") in self._namespaces and event.get("log_level") in (LogLevel.warn, LogLevel.error):
            self._tell(formatEvent(event))


def tell_warnings(tell: Callable[[str], None]) -> Callable[[], None]:
    """Call ``tell`` with each warning of ``NAMESPACES`` from now on; return the function that ends that."""
    return _observe(_WarningObserver(tell, NAMESPACES))


def _observe(observe: ILogObserver) -> Callable[[], None]:
    globalLogPublisher.addObserver(observe)
    _told.append(observe)

    def end() -> None:
        globalLogPublisher.removeObserver(observe)
        _told.remove(observe)

    return end


def warn_by_logging() -> Callable[[], None]:
    """Hand all warnings to the standard library's logger ``logd``, which shows them on stderr by default.

    Returns the function that ends that.
    """
    return _observe(_WarningObserver(_hand_to_logging, NAMESPACES + MORE_FOR_PROGRAMS))


def warn_without_log() -> None:
    """Hand all warnings to logger ``logd`` while the program has begun no Twisted log and nothing else shows them."""
    globalLogPublisher.addObserver(_without_log)


def _hand_to_logging(line: str) -> None:
    logging.getLogger("logd").warning("%s", line)


@implementer(ILogObserver)
class _WithoutLogObserver(_WarningObserver):
    def __call__(self, event: LogEvent) -> None:
        # Twisted has no public way to ask this: until a program begins its log, one observer keeps all events.
        if not _told and getattr(globalLogBeginner, "_temporaryObserver", None) is not None:
            super().__call__(event)


_without_log = _WithoutLogObserver(_hand_to_logging, NAMESPACES + MORE_FOR_PROGRAMS)
