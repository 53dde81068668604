"""Which log a message set goes to."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from logd.broker.counters import Counters
from logd.broker.reading import Logs, find_log
from logd.errors import UnknownTopic
from logd.interfaces import Clock, ITopics
from logd.log.partition import PartitionLog


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
    _turn: int = 0

    def log_for(self, topic: str, partition: int) -> PartitionLog:
        """Return the log to append to; partition -1 takes turns among the topic's partitions.

        Raises CreationNeeded, or the WireError to answer.
        """
        if partition == -1:
            entry = self.topics.get(topic)
            if entry is not None:
                numbers = sorted(entry.partitions)
                self._turn += 1
                partition = numbers[self._turn % len(numbers)]
        try:
            return find_log(self.logs, self.topics, topic, partition)
        except UnknownTopic:
            if self.create_topics and partition >= -1:
                raise CreationNeeded(topic) from None
            raise
