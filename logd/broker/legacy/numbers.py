"""The numbers of partitions in Kafka 0.7: each broker counts its own partitions of a topic from 0 on."""

from __future__ import annotations

from collections.abc import Callable

from logd.broker.topics.directory import TopicDirectory
from logd.config import BrokerSettings
from logd.config.log import LEGACY_FORMAT
from logd.topic import TopicEntry

#: A partition that no broker has: a request for it is answered with an error.
NO_PARTITION = (1 << 31) - 1


def own_partitions(entry: TopicEntry | None, broker_id: int) -> list[int]:
    """Return the partitions of a topic that a broker leads, in order: the place in the list is the number in 0.7."""
    if entry is None:
        return []
    return sorted(number for number, brokers in entry.partitions.items() if brokers and brokers[0] == broker_id)


def counting(topics: TopicDirectory, broker_id: int, settings: BrokerSettings) -> Callable[[], dict[str, int]]:
    """Return a function that returns the number of a broker's partitions of each topic for clients of 0.7."""

    def counts() -> dict[str, int]:
        found = {}
        for topic in topics.names():
            entry = topics.get(topic)
            if entry is not None and entry.settings.get("message.format", settings.log.message_format) == LEGACY_FORMAT:
                count = len(own_partitions(entry, broker_id))
                if count:
                    found[topic] = count
        return found

    return counts
