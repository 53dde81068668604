"""The choice of the log that a message set is appended to."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logd.broker.counters import Counters
from logd.broker.reading import find_log
from logd.broker.topics.directory import TopicDirectory
from logd.errors import PartitionOffline, WrongPartition
from logd.interfaces import Clock
from logd.log.partition import PartitionLog
from logd.log.store.log_store import LogStore
from logd.topic import TopicEntry


@define(eq=False)
class Routing:
    """The part of producing that all connections of a broker share: above all, the choice of a set's log."""

    logs: LogStore
    topics: TopicDirectory
    counters: Counters
    clock: Clock
    create_topics: bool
    due_now: Callable[[PartitionLog], None]
    #: Round-robin count by topic. One count for all would tie topics together that are produced to alternately.
    _round_robin: dict[str, int] = field(factory=dict, init=False)

    def log_for(self, topic: str, partition: int) -> PartitionLog:
        """Return the log to append to. Partition -1 means round-robin over the topic's served partitions.

        Raises the WireError to answer.
        """
        if partition == -1:
            entry = self.topics.get(topic)
            if entry is not None:
                partition = self._pick(topic, entry)
        return find_log(self.logs, self.topics, topic, partition)

    def creates(self, topic: str, partition: int) -> bool:
        """Return whether a produce to this partition creates the topic: it is missing and may be created on demand."""
        missing = self.topics.get(topic) is None and self.logs.log(topic, partition) is None
        return missing and self.create_topics and partition >= -1

    def entry_limits(self, topic: str, partition: int) -> tuple[int, int, bool] | None:
        """Return what ``check_set`` is to check, None for no such partition. -1 means the topic's first."""
        if partition == -1:
            entry = self.topics.get(topic)
            partition = min(entry.partitions, default=-1) if entry is not None else -1
        log = self.logs.log(topic, partition)
        return None if log is None else log.settings.entry_limits

    def _pick(self, topic: str, entry: TopicEntry) -> int:
        """Return the topic's next served partition here; if none is served, one whose log gives the reason.

        Raises WrongPartition if no partition is on this broker, since the answer cannot name another broker, and
        PartitionOffline for a topic that cannot be used.
        """
        logs = self.logs
        partitions = [number for number in sorted(entry.partitions) if logs.log(topic, number) is not None]
        problem = self.topics.problem(topic)
        if problem is not None:
            raise PartitionOffline(problem)
        if not partitions:
            raise WrongPartition(
                f"no partition of topic {topic!r} is on this broker, so it cannot pick one: send to a partition's "
                "leader, as clients that discover brokers do; behind a load balancer give topics at least as many "
                "partitions as there are brokers (topics.partitions)"
            )
        count = self._round_robin.get(topic, 0)
        for count in range(count, count + len(partitions)):  # noqa: B020  # continues behind the last choice
            number = partitions[count % len(partitions)]
            log = logs.log(topic, number)
            if log is not None and log.offline is None:
                break
        self._round_robin[topic] = count + 1
        return number
