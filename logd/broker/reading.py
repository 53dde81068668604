"""The way from topic, partition and offset of a fetch to a range of a segment file."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from logd.broker.topics.directory import TopicDirectory
from logd.checkedjson import excerpt
from logd.errors import (
    CoordinationUnavailable,
    InvalidFetchSize,
    OffsetOutOfRange,
    PartitionOffline,
    TopicAuthorizationFailed,
    UnknownTopic,
    WireError,
    WrongPartition,
)
from logd.interfaces import IFileRange
from logd.log.partition import PartitionLog
from logd.log.store.log_store import LogStore
from logd.plurals import counted

#: The errors of a fetch that the access rules forbid, or that came before they were known.
REFUSALS = (TopicAuthorizationFailed, CoordinationUnavailable)


def find_log(logs: LogStore, topics: TopicDirectory, topic: str, partition: int) -> PartitionLog:
    """Return the log. Raises UnknownTopic, WrongPartition (not stored here), NotLeader or PartitionOffline."""
    log = logs.log(topic, partition)
    if log is None:
        entry = topics.get(topic)
        if entry is None:
            raise UnknownTopic(f"there is no topic {excerpt(topic)}")
        problem = topics.problem(topic)
        if problem is not None:
            raise PartitionOffline(problem)
        brokers = entry.partitions.get(partition)
        there = counted(len(entry.partitions), "partition")
        where = f"brokers {list(brokers)} have it" if brokers else f"the topic has {there}"
        raise WrongPartition(f"partition {partition} of topic {topic!r} is not on this broker: {where}")
    if log.offline is not None:
        raise PartitionOffline(f"{topic}-{partition} is offline: {log.offline}")
    if (refusal := replica_refusal(log)) is not None:
        raise refusal
    return log


def replica_refusal(log: PartitionLog) -> WireError | None:
    """Return the error for clients if this broker stores a replica of the partition, but does not lead it."""
    return None if log.replica is None else log.replica.refusal


def read_range(log: PartitionLog, offset: int, max_bytes: int) -> IFileRange | None:
    """Return up to ``max_bytes`` visible bytes from ``offset``, or None if there are none yet.

    Raises InvalidFetchSize, or OffsetOutOfRange with the range of the log.
    """
    if max_bytes < 0:
        raise InvalidFetchSize(f"cannot fetch {max_bytes} bytes")
    if offset < 0:
        raise OffsetOutOfRange(f"offset {offset} is negative")
    return log.read(offset, max_bytes)


@frozen
class ConsumedLogs:
    """The logs as consumers read them."""

    logs: LogStore
    topics: TopicDirectory
    #: Called with each log whose newest message is given to a consumer.
    delivered: Callable[[PartitionLog], None]

    def find(self, topic: str, partition: int) -> PartitionLog:
        """Return the log; see ``find_log``."""
        return find_log(self.logs, self.topics, topic, partition)

    def read(self, log: PartitionLog, offset: int, max_bytes: int) -> IFileRange | None:
        """Return visible bytes of a log; see ``read_range``."""
        found = read_range(log, offset, max_bytes)
        if found is not None and offset + found.count >= log.visible_end:
            self.delivered(log)
        return found
