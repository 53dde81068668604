"""Which log a message set goes to."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logd.broker.counters import Counters
from logd.broker.reading import Logs, find_log
from logd.errors import PartitionOffline, UnknownTopic, WrongPartition
from logd.interfaces import Clock, ITopics
from logd.log.partition import PartitionLog
from logd.topic import TopicEntry


class CreationNeeded(Exception):
    """The topic does not exist and may be created: the request has to wait for that."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic


@define(eq=False)
class Routing:
    """What the connections of a broker share for producing: above all, which log a set goes to."""

    logs: Logs
    topics: ITopics
    counters: Counters
    clock: Clock
    create_topics: bool
    due_now: Callable[[PartitionLog], None]
    #: How often a partition was picked, by topic: one count for all would tie topics that are produced to in turns.
    _turns: dict[str, int] = field(factory=dict, init=False)

    def log_for(self, topic: str, partition: int) -> PartitionLog:
        """Return the log to append to; partition -1 takes turns among the topic's partitions that are served.

        Raises CreationNeeded, or the WireError to answer.
        """
        if partition == -1:
            entry = self.topics.get(topic)
            if entry is not None:
                partition = self._pick(topic, entry)
        try:
            return find_log(self.logs, self.topics, topic, partition)
        except UnknownTopic:
            if self.create_topics and partition >= -1:
                raise CreationNeeded(topic) from None
            raise

    def _pick(self, topic: str, entry: TopicEntry) -> int:
        """The next partition of ours that is served; one that is not served where none is, so that it is said why.

        Raises WrongPartition when no partition is on this broker, as a client that knows no other broker cannot be
        told of them, and PartitionOffline for a topic that cannot be used.
        """
        logs = self.logs
        partitions = [number for number in sorted(entry.partitions) if logs.log(topic, number) is not None]
        problem = self.topics.problem(topic)
        if problem is not None:
            raise PartitionOffline(problem)
        if not partitions:
            raise WrongPartition(
                f"no partition of topic {topic!r} is on this broker, so it cannot pick one: send to the partition's "
                "leader, as clients do that discover brokers; behind a load balancer give topics at least as many "
                "partitions as there are brokers (topics.partitions)"
            )
        turn = self._turns.get(topic, 0)
        for turn in range(turn, turn + len(partitions)):  # noqa: B020  # from where the last one ended
            number = partitions[turn % len(partitions)]
            log = logs.log(topic, number)
            if log is not None and log.offline is None:
                break
        self._turns[topic] = turn + 1
        return number
