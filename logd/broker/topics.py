"""The topics of a single broker without a coordination tree: kept in topics.json, every partition stored here."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger
from zope.interface import implementer

from logd.config import BrokerSettings, LogSettings
from logd.errors import (
    ConfigurationError,
    InvalidTopic,
    LogdError,
    StorageFull,
    TopicExists,
    UnknownError,
    UnknownTopic,
    WireError,
)
from logd.interfaces import IThreads, ITopics
from logd.log.room import NO_ROOM
from logd.log.store import LogStore
from logd.log.topicsfile import TopicsFile
from logd.topic import TopicEntry, check_topic_name


@implementer(ITopics)
@define(eq=False)
class LocalTopics:
    """ITopics over topics.json. A change is seen and answered once it would survive a loss of power, one at a time."""

    _log = Logger()

    _store: LogStore
    _file: TopicsFile
    _threads: IThreads
    _settings: BrokerSettings
    _entries: dict[str, TopicEntry] = field(factory=dict, init=False)
    _partitions: int = field(default=0, init=False)
    _changing: DeferredLock = field(factory=DeferredLock, init=False)
    _loaded: bool = field(default=False, init=False)

    def load(self) -> None:
        """Read topics.json. Blocks; the data directory has to be locked. Raises DataDirectoryError, OSError."""
        if not self._loaded:
            self._loaded = True
            self._entries = self._file.read()
            self._partitions = sum(len(entry.partitions) for entry in self._entries.values())

    def settings_for(self, topic: str) -> LogSettings | None:
        """A topic's own settings, for a store that opens. Reads topics.json when that was not done before."""
        self.load()
        entry = self._entries.get(topic)
        return None if entry is None else self._settings.log_settings(entry.settings)

    def reconcile(self) -> None:
        """Agree with the store once it is open: logs without an entry get one, partitions without a log get that.

        A broker that was killed while it made or deleted a topic leaves the one or the other. Blocks.
        """
        self.load()
        orphans: dict[str, int] = {}
        for log in self._store.logs():
            if log.topic not in self._entries:
                orphans[log.topic] = max(orphans.get(log.topic, 0), log.partition + 1)
        for topic, partitions in orphans.items():
            self._log.warn("topic {topic} is not in topics.json; its logs are served under a new uuid", topic=topic)
            self._entries[topic] = self._new_entry(partitions, {})
            self._partitions += partitions
        try:
            if orphans:
                self._file.write(self._entries)
            for topic, entry in self._entries.items():
                for partition in entry.partitions:
                    self._store.create(topic, partition, self._settings.log_settings(entry.settings))
        except (WireError, OSError) as error:
            # Of what was being made when the broker was killed, on a disk that does not take it now: no reason for the
            # rest not to be served.
            self._log.warn("some topics are not whole until the next start: {error}", error=str(error))

    def names(self) -> list[str]:
        """See ITopics."""
        return sorted(self._entries)

    def get(self, topic: str) -> TopicEntry | None:
        """See ITopics."""
        return self._entries.get(topic)

    def create(self, topic: str, partitions: int, settings: dict[str, int]) -> Deferred[TopicEntry]:
        """See ITopics. Fails also with StorageFull or UnknownError when the disk does not take it; nothing is left."""
        return Deferred.fromCoroutine(self._create(topic, partitions, settings))

    def delete(self, topic: str) -> Deferred[None]:
        """See ITopics. Those who wait for its messages are told that it is gone."""
        return Deferred.fromCoroutine(self._delete(topic))

    async def _create(self, topic: str, partitions: int, settings: dict[str, int]) -> TopicEntry:
        check_topic_name(topic)
        async with self._changing:
            return await self._make(topic, partitions, settings)

    async def _delete(self, topic: str) -> None:
        async with self._changing:
            await self._remove(topic)

    async def _make(self, topic: str, partitions: int, settings: dict[str, int]) -> TopicEntry:
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
        entry = self._new_entry(partitions, settings)
        try:
            # The entry first, and only then the logs that take messages: what is in them must never be taken back.
            await self._write({**self._entries, topic: entry})
            for number in range(partitions):
                self._store.create(topic, number, log_settings)
        except (LogdError, OSError) as error:
            await self._take_back(topic)
            raise _answerable(f"topic {topic!r} cannot be made", error) from error
        self._entries[topic] = entry
        self._partitions += partitions
        return entry

    async def _take_back(self, topic: str) -> None:
        try:
            await self._remove_logs(topic)
            await self._write(self._entries)
        except (LogdError, OSError) as error:
            self._log.warn(
                "topic {topic} could not be made, but is perhaps there after the next start: {error}",
                topic=topic,
                error=str(error),
            )

    async def _remove(self, topic: str) -> None:
        entry = self._entries.pop(topic, None)
        if entry is None:
            raise UnknownTopic(f"there is no topic {topic!r}")
        self._partitions -= len(entry.partitions)
        # The logs first: logs without an entry would come back at the next start.
        try:
            await self._remove_logs(topic)
            await self._write(self._entries)
        except (LogdError, OSError) as error:
            self._put_back(topic, entry)
            raise _answerable(f"topic {topic!r} cannot be deleted", error) from error

    def _put_back(self, topic: str, entry: TopicEntry) -> None:
        """Have a topic that could not be deleted as the next start would find it, with what is left of its logs."""
        self._entries[topic] = entry
        self._partitions += len(entry.partitions)
        for number in entry.partitions:
            try:
                self._store.create(topic, number, self._settings.log_settings(entry.settings))
            except WireError as error:
                self._log.warn("{error}", error=str(error))

    def _new_entry(self, partitions: int, settings: dict[str, int]) -> TopicEntry:
        brokers = (self._store.broker_id,)
        return TopicEntry(str(uuid.uuid4()), dict.fromkeys(range(partitions), brokers), settings)

    async def _remove_logs(self, topic: str) -> None:
        removed: Deferred[None] = Deferred()

        def done(error: BaseException | None) -> None:
            if error is not None:
                removed.errback(error)
            else:
                removed.callback(None)

        self._store.delete(topic, done)
        await removed

    async def _write(self, entries: Mapping[str, TopicEntry]) -> None:
        """Replace topics.json on a thread."""
        written: Deferred[None] = Deferred()

        def done(_: Any, error: BaseException | None) -> None:
            if error is None:
                written.callback(None)
            else:
                written.errback(error)

        self._threads.run(lambda: self._file.write(entries), done)
        await written


def _answerable(what: str, error: LogdError | OSError) -> WireError:
    """The error to answer when a change of topics failed."""
    if isinstance(error, WireError):
        return error
    failure = StorageFull if isinstance(error, OSError) and error.errno in NO_ROOM else UnknownError
    return failure(f"{what}: {error}")
