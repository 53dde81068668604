"""The numbers of partitions in Kafka 0.7: each broker counts its own partitions of a topic from 0 on."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from logd.broker.topics.directory import TopicDirectory
from logd.config import BrokerSettings
from logd.config.log import LEGACY_FORMAT
from logd.topic import TopicEntry

_log = Logger()

#: A partition that no broker has: a request for it is answered with an error.
NO_PARTITION = (1 << 31) - 1


def own_partitions(entry: TopicEntry, broker_id: int) -> list[int] | None:
    """Return the partitions of a topic on a broker, in order: the place in the list is the number in 0.7.

    None for a topic whose partitions have no such numbers, since one is not on one broker, to stay there. Where another
    replica may lead, the numbers of brokers, by which consumers of 0.7 keep their positions, would change with each
    election, and messages that 0.7 sends, without an answer, would be lost in a follower.
    """
    if entry.replicated:
        return None
    mine = []
    for number, brokers in entry.partitions.items():
        if len(brokers) > 1:
            return None
        if broker_id in brokers:
            mine.append(number)
    return sorted(mine)


def counting(topics: TopicDirectory, broker_id: int, settings: BrokerSettings) -> Callable[[], dict[str, int]]:
    """Return a function that returns the number of a broker's partitions of each topic for clients of 0.7."""
    told: set[str] = set()

    def counts() -> dict[str, int]:
        found, without = {}, set()
        for topic in topics.names():
            entry = topics.get(topic)
            if entry is None or entry.settings.get("message.format", settings.log.message_format) != LEGACY_FORMAT:
                continue
            mine = own_partitions(entry, broker_id)
            if mine is None:
                without.add(topic)
            elif mine:
                found[topic] = len(mine)
        for topic in sorted(without - told):
            _log.warn(
                "topic {topic} has several replicas, and is not registered for clients of Kafka 0.7, nor served on "
                "legacy.listen: they would lose messages when another replica leads; give it one replica, or use the "
                "port of the setting listen",
                topic=topic,
            )
        told.clear()
        told.update(without)
        return found

    return counts
