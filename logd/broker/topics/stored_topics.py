"""The topics stored on this broker, recorded in topics.json: the topic of each log in the data directory."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeVar

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.broker.disk_slices import run_in_slices
from logd.broker.topics.conflicts import LogRefused, several_brokers
from logd.checkedjson import excerpt
from logd.config import BrokerSettings, LogSettings
from logd.deferreds.callbacks import called_back
from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import ConfigurationError, LogdError, StorageFull, UnknownError, WireError
from logd.interfaces import IThreads
from logd.log.disk.errors import NO_ROOM
from logd.log.partition import PartitionLog
from logd.log.store.log_store import LogStore
from logd.log.store.topics_file import TopicsFile
from logd.log.writer import SegmentWriter
from logd.topic import TopicEntry

T = TypeVar("T")

#: Logs that are made in one turn of the reactor once their folders are there: some milliseconds.
LOGS_AT_ONCE = 200


@define(eq=False)
class StoredTopics:
    """The topics with logs on this broker. Callers make changes of one topic one at a time, after asking the tree.

    Changes of several topics that arrive while topics.json is being written share the next write, so that a thousand
    topics cost a few writes.

    A topic's record is written before its logs are created, and removed after its logs. So a kill can leave a record
    without logs; a log without a record means that topics.json was lost. Empty logs are created only once the tree has
    shown that nothing was stored in them.
    """

    _log = Logger()

    _store: LogStore
    _file: TopicsFile
    _threads: IThreads
    _settings: BrokerSettings
    #: The whole entry of each topic, including the partitions of other brokers.
    entries: dict[str, TopicEntry] = field(factory=dict, init=False)
    #: Topics of logs without a record: their uuid is unknown here, so they have a new one.
    orphans: set[str] = field(factory=set, init=False)
    #: Called with each new log, to make its producers wait.
    made: Callable[[PartitionLog], None] = field(default=lambda log: None, init=False)
    #: Called with the topic and partition of a log that is served again, before anything is appended to it.
    reopened: Callable[[str, int], None] = field(default=lambda topic, number: None, init=False)
    #: Topics of which the broker's log says that retention deletes nothing.
    _kept_whole: set[str] = field(factory=set, init=False)
    #: The reasons for which logs are refused, by topic and partition.
    _refused: dict[tuple[str, int], str] = field(factory=dict, init=False)
    _loaded: bool = field(default=False, init=False)
    #: The changes of the next write (None: the topic is removed), and the callers that wait for it.
    _changes: dict[str, TopicEntry | None] = field(factory=dict, init=False)
    _waiting: WaitingDeferreds[None] = field(factory=WaitingDeferreds, init=False)
    _writing: bool = field(default=False, init=False)

    def load(self) -> None:
        """Read topics.json once. Blocks; the data directory has to be locked. Raises DataDirectoryError, OSError."""
        if not self._loaded:
            self._loaded = True
            self.entries = self._file.read()
            for name, problem in self._file.problems.items():
                self._log.error(
                    "{name} in topics.json cannot be used and is ignored: {problem}; mend or remove it while the "
                    "broker is stopped",
                    name=excerpt(name),
                    problem=problem,
                )

    def settings_for(self, topic: str) -> LogSettings | None:
        """Return a topic's own settings for a store that opens; None for an unknown topic. Calls ``load``."""
        self.load()
        entry = self.entries.get(topic)
        return None if entry is None else self._log_settings(topic, entry)

    def is_replicated(self, topic: str) -> bool:
        """Return whether a topic's partitions have states, by its record here."""
        entry = self.entries.get(topic)
        return entry is not None and entry.replicated

    def reconcile(self) -> None:
        """Give each log without a record a record. Call it once the store is open.

        A partition without a log gets no log before the tree was asked whether one existed: the log may be lost.
        """
        self.load()
        found: dict[str, int] = {}
        for log in self._store.logs():
            if log.topic not in self.entries:
                found[log.topic] = max(found.get(log.topic, 0), log.partition + 1)
        damage = self._file.damage
        if damage:
            self._log.error(
                "topics.json is damaged ({damage}); lost records are read from the coordination tree",
                damage=damage,
            )
        for topic, partitions in found.items():
            self._log.warn(
                "topic {topic} is not in topics.json; its logs are served under the tree's uuid, or a new one",
                topic=topic,
            )
            self.orphans.add(topic)
            brokers = (self._store.broker_id,)
            self.entries[topic] = TopicEntry(str(uuid.uuid4()), dict.fromkeys(range(partitions), brokers))
            if damage:
                # Retention has to wait for the topic's own settings, too.
                reason = f"the record of topic {topic!r} in topics.json is damaged; the topic is served once its record"
                self.refuse(topic, self.partitions_here(topic), f"{reason} in the coordination tree is read")
        for topic, entry in self.entries.items():
            problem = several_brokers(topic, entry)
            if problem is not None:
                self.refuse(topic, self.partitions_here(topic), problem)

    def mine(self, entry: TopicEntry) -> list[int]:
        """Return the partitions for which the entry lists this broker, ascending."""
        broker = self._store.broker_id
        return sorted(number for number, brokers in entry.partitions.items() if broker in brokers)

    def stores(self, topic: str) -> bool:
        """Return whether a partition of a recorded topic is stored here, by its record, or as there is a log."""
        entry = self.entries.get(topic)
        return bool(self.partitions_here(topic)) or (entry is not None and bool(self.mine(entry)))

    def has_data(self, topic: str) -> bool:
        """Return whether a log of the topic here has ever held data; True if that is unknown."""
        return any(log.end > 0 or log.offline is not None for log in self._store.logs_of(topic))

    def is_whole(self, topic: str, entry: TopicEntry) -> bool:
        """Return whether the entry is recorded here, or need not be, and every log that it lists here exists."""
        mine = self.mine(entry)
        if topic in self.orphans or (mine and self.entries.get(topic) != entry):
            return False
        return all(self._store.log(topic, number) is not None for number in mine)

    async def keep(self, topic: str, entry: TopicEntry) -> None:
        """Record a topic and create the logs of its partitions here; a former record of it is replaced.

        Raises StorageFull or UnknownError when the disk does not take it.
        """
        try:
            if self.entries.get(topic) != entry or topic in self.orphans:
                await self._write(topic, entry)
                self.orphans.discard(topic)
                self._store.configure(topic, self._log_settings(topic, entry))
            await self._make_logs(topic, entry)
        except (LogdError, OSError) as error:
            raise _answerable(f"topic {topic!r} cannot be created", error) from error

    async def remove(self, topic: str) -> None:
        """Remove the logs of a topic, then its record. Waiting fetches are answered that the topic is deleted.

        Raises StorageFull or UnknownError when the disk does not take it; the call can be repeated.
        """
        entry = self.entries.get(topic)
        try:
            # A failed attempt may have left folders without logs.
            await self._remove_logs(topic, [] if entry is None else self.mine(entry))
            if entry is not None:
                await self._write(topic, None)
                self.orphans.discard(topic)
        except (LogdError, OSError) as error:
            raise _answerable(f"the logs of topic {topic!r} cannot be removed", error) from error

    async def leave(self, topic: str, partitions: Collection[int]) -> None:
        """Remove the logs of some partitions, which other brokers store from now on.

        Raises StorageFull or UnknownError when the disk does not take it; the call can be repeated.
        """
        try:
            await called_back(lambda done: self._store.delete(topic, done, partitions, whole=False))
        except (LogdError, OSError) as error:
            raise _answerable(f"logs of topic {topic!r} cannot be removed", error) from error
        for number in partitions:
            self._refused.pop((topic, number), None)

    def refuse(self, topic: str, partitions: Collection[int], reason: str) -> None:
        """Take these logs offline without touching their files."""
        for number in partitions:
            log = self._store.log(topic, number)
            if log is not None:
                self._refused[topic, number] = reason
                log.go_offline(LogRefused(reason))

    def refusal(self, topic: str, number: int) -> str | None:
        """Return the reason for which a log is refused, whatever else keeps it offline; None if it is not refused."""
        return self._refused.get((topic, number))

    def log_opened(self, log: PartitionLog) -> None:
        """Take a refused log offline that work has had served which had begun before, such as a repair."""
        reason = self.refusal(log.topic, log.partition)
        if reason is not None:
            log.go_offline(LogRefused(reason))

    async def readmit(self, topic: str, strangers: Collection[int], lost: Collection[int]) -> None:
        """Refuse the logs of a topic no more, except ``strangers``, and serve all but the lost ones again.

        They are recovered as at a start. Raises StorageFull or UnknownError when the disk does not let it; the call can
        be repeated.
        """
        for number in [number for name, number in self._refused if name == topic and number not in strangers]:
            reason = self._refused.pop((topic, number))
            log = self._store.log(topic, number)
            if log is not None and log.offline is not None and number not in lost:
                try:
                    await called_back(partial(self._store.reopen, log, lambda: True))
                except (LogdError, OSError) as error:
                    self._refused[topic, number] = reason
                    raise _answerable(f"{topic}-{number} cannot be served again", error) from error
                self.reopened(topic, number)
                self._log.info("{topic}-{number} is served again", topic=topic, number=number)

    def partitions_here(self, topic: str) -> list[int]:
        """Return the partitions that have a log here, ascending."""
        return sorted(log.partition for log in self._store.logs_of(topic))

    async def _make_logs(self, topic: str, entry: TopicEntry) -> None:
        """Create a log for each partition here: first all folders, on threads, then the logs, which cannot fail.

        Other work is done in between, however many partitions there are.
        """
        missing = [number for number in self.mine(entry) if self._store.log(topic, number) is None]
        if not missing:
            return
        settings = self._log_settings(topic, entry)
        made: Deferred[list[tuple[int, SegmentWriter | None]]] = Deferred()
        folders = self._store.make_folders(topic, missing)
        run_in_slices(self._threads, folders, lambda: None, partial(_fire, made))
        for count, (number, writer) in enumerate(await made, 1):
            self.made(self._store.create(topic, number, settings, writer))
            if count % LOGS_AT_ONCE == 0:
                turn: Deferred[None] = Deferred()
                self._threads.run(lambda: None, partial(_fire, turn))
                await turn

    def on_thread(self, work: Callable[[], T]) -> Deferred[T]:
        """Run work that waits for the disk on a thread; fire with its result."""
        result: Deferred[T] = Deferred()
        self._threads.run(work, partial(_fire, result))
        return result

    def _log_settings(self, topic: str, entry: TopicEntry) -> LogSettings:
        """Return the settings of a topic's logs, without retention for a topic that is kept whole."""
        settings = self._own_settings(topic, entry)
        if not entry.is_kept_whole:
            self._kept_whole.discard(topic)
            return settings
        if topic not in self._kept_whole:
            self._kept_whole.add(topic)
            self._log.info(
                "topic {topic} is kept whole, whatever its retention.ms and retention.bytes: its cleanup.policy is "
                "compact, and messages whose keys have later ones are not removed yet; with compact,delete retention "
                "deletes old segments",
                topic=topic,
            )
        return evolve(settings, retention_ms=-1, retention_bytes=-1)

    def _own_settings(self, topic: str, entry: TopicEntry) -> LogSettings:
        """Return a topic's settings; the broker's own if the topic's are not allowed on this broker.

        The topic was created on another broker: to refuse it here would leave its partitions without a log.
        """
        try:
            return self._settings.log_settings(entry.settings)
        except ConfigurationError as error:
            self._log.warn(
                "the settings of topic {topic} are not allowed on this broker, which uses its own settings: {error}",
                topic=topic,
                error=str(error),
            )
            return self._settings.log_settings({})

    async def _remove_logs(self, topic: str, partitions: list[int]) -> None:
        await called_back(lambda done: self._store.delete(topic, done, partitions))
        self._refused = {key: reason for key, reason in self._refused.items() if key[0] != topic}

    async def _write(self, topic: str, entry: TopicEntry | None) -> None:
        """Write or remove a topic's record durably, then update ``entries``. Raises the errors of the write."""
        waiter = self._waiting.new()
        self._changes[topic] = entry
        if not self._writing:
            self._write_on()
        await waiter

    def _write_on(self) -> None:
        """Replace topics.json on a thread, with all waiting changes applied."""
        changes, self._changes = self._changes, {}
        waiting, self._waiting = self._waiting, WaitingDeferreds()
        merged = {**self.entries, **changes}
        entries = {topic: entry for topic, entry in merged.items() if entry is not None}
        self._writing = True

        def done(_: Any, error: BaseException | None) -> None:
            if error is None:
                self.entries = entries
                waiting.fire(None)
            else:
                waiting.fail(error)
            # Last, so that changes requested by the callers answered just now are in the next write.
            self._writing = False
            if self._waiting:
                self._write_on()

        self._threads.run(lambda: self._file.write(entries), done)


def _fire(waiter: Deferred[T], result: T | None, error: BaseException | None) -> None:
    if error is not None:
        waiter.errback(error)
    else:
        waiter.callback(result)  # type: ignore[arg-type]  # None only where T is


def _answerable(what: str, error: LogdError | OSError) -> WireError:
    """Return the error to answer after a failed change of topics."""
    if isinstance(error, WireError):
        return error
    failure = StorageFull if isinstance(error, OSError) and error.errno in NO_ROOM else UnknownError
    return failure(f"{what}: {error}")
