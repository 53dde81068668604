"""The topics of a single broker without a coordination tree: kept in topics.json, every partition stored here."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from logd.config import BrokerSettings
from logd.errors import ConfigurationError, InvalidTopic, LogdError, TopicExists, UnknownTopic
from logd.interfaces import ITopics
from logd.log.store import LogStore
from logd.topic import TopicEntry, check_topic_name


@implementer(ITopics)
@define(eq=False)
class LocalTopics:
    """ITopics over the store's topics.json. A creation is answered once it would survive a loss of power."""

    _store: LogStore
    _settings: BrokerSettings
    _broker_id: Callable[[], int]
    _entries: dict[str, TopicEntry] = field(factory=dict, init=False)
    _partitions: int = field(default=0, init=False)

    def load(self) -> None:
        """Read what the store knows. Blocks; for the start."""
        self._entries = self._store.load_topics()
        self._partitions = sum(len(entry.partitions) for entry in self._entries.values())

    def names(self) -> list[str]:
        """See ITopics."""
        return sorted(self._entries)

    def get(self, topic: str) -> TopicEntry | None:
        """See ITopics."""
        return self._entries.get(topic)

    def create(self, topic: str, partitions: int, settings: dict[str, int]) -> Deferred[TopicEntry]:
        """See ITopics. Fails also with the error of a disk that does not take it; nothing is left of the topic then."""
        try:
            check_topic_name(topic)
            if topic in self._entries:
                raise TopicExists(f"topic {topic!r} exists already")
            room = self._settings.topics_max - self._partitions
            if not 1 <= partitions <= room:
                raise InvalidTopic(
                    f"topic {topic!r} cannot have {partitions} partitions; allowed here is 1 to {room} "
                    f"(topics.max = {self._settings.topics_max} in all, {self._partitions} are in use)"
                )
            try:
                log_settings = self._settings.log_settings(settings)
            except ConfigurationError as error:
                raise InvalidTopic(f"topic {topic!r}: {error}") from error
            entry = TopicEntry(str(uuid.uuid4()), {number: (self._broker_id(),) for number in range(partitions)}, settings)
            for number in range(partitions):
                self._store.create(topic, number, log_settings)
            self._entries[topic] = entry
            self._partitions += partitions
            self._store.save_topics(self._entries)
        except LogdError as error:
            return fail(error)
        return succeed(entry)

    def delete(self, topic: str) -> Deferred[None]:
        """See ITopics. Consumers that wait for its messages are answered with UnknownTopic."""
        entry = self._entries.pop(topic, None)
        if entry is None:
            return fail(UnknownTopic(f"there is no topic {topic!r}"))
        self._partitions -= len(entry.partitions)
        self._store.save_topics(self._entries)
        self._store.delete(topic)
        return succeed(None)


def topic_exists_is_fine(failure: Any) -> None:
    """An errback for creations that only want the topic to be there."""
    failure.trap(TopicExists)
