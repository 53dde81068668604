"""The topics as the coordination tree has them, and what this broker does about its share of each.

A create in the tree decides who makes a topic; a delete there leaves a note for those that store it. What is in the
tree is compared with what is stored here (``comparison``), at the start and at each change.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logd.broker.comparison import TopicComparison
from logd.broker.spread import Spread
from logd.broker.storedends import EndsRecorder
from logd.broker.storedtopics import StoredTopics
from logd.broker.turns import Turns
from logd.config import BrokerSettings
from logd.coord import paths
from logd.coord.errors import CoordinationError, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState
from logd.coord.registries.mirror import Mirror
from logd.coord.registries.topics import (
    create_topic,
    delete_topic,
    read_topic,
    removed_by,
    watch_topics,
)
from logd.errors import (
    BrokerStopping,
    ConfigurationError,
    CoordinationUnavailable,
    InvalidTopic,
    TopicExists,
    WireError,
)
from logd.interfaces import Clock, ITopics, Timer
from logd.topic import TopicEntry, check_topic_name

#: Seconds until what could not be settled is tried again.
RETRY_SECONDS = 5.0
#: How many topics are compared at a time: their questions to the tree and their records here share round trips and
#: syncs. More would keep a creation waiting that comes behind them.
COMPARED_AT_ONCE = 50


@implementer(ITopics)
@define(eq=False)
class TreeTopics:
    """ITopics over the tree. Reads never wait: until the tree was read once they show what is stored here."""

    _log = Logger()

    _tree: ICoordination
    _stored: StoredTopics
    _settings: BrokerSettings
    _clock: Clock
    #: This broker's id.
    _me: int
    _spread: Spread
    _ends: EndsRecorder
    #: Called when what is stored here has changed.
    on_change: Callable[[], None] = field(default=lambda: None, init=False)
    #: Whether what is stored here was compared with the tree once.
    settled: bool = field(default=False, init=False)
    _entries: dict[str, TopicEntry] = field(init=False)
    _mirror: Mirror[TopicEntry] = field(init=False)
    _comparison: TopicComparison = field(init=False)
    #: Topics that are to be compared.
    _dirty: set[str] = field(factory=set, init=False)
    #: Why topics could not be settled, as it was said.
    _troubles: dict[str, str] = field(factory=dict, init=False)
    #: uuids of topics that were deleted here and that the mirror may still show.
    _deleted: dict[str, str] = field(factory=dict, init=False)
    #: What is done to a topic is done one after the other; different topics do not wait for one another.
    _turns: Turns = field(factory=Turns, init=False)
    #: Partitions of topics that are being made.
    _claimed: dict[str, int] = field(factory=dict, init=False)
    _working: bool = field(default=False, init=False)
    _retry: Timer | None = field(default=None, init=False)
    _stopping: bool = field(default=False, init=False)
    _following: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        stored = self._stored
        # A uuid that was made up here is told to nobody before the tree was asked for the topic's own.
        self._entries = {topic: entry for topic, entry in stored.entries.items() if topic not in stored.orphans}
        self._mirror = watch_topics(self._tree, self._clock, self._changed)
        self._ends.changed = self.recheck
        self._comparison = TopicComparison(
            self._tree, self._stored, self._ends, self._me, self._hide, lambda: self.on_change()
        )

    async def begin(self) -> None:
        """Compare everything once this broker is registered, and follow the tree from then on.

        Raises CoordinationError; the call can be made again.
        """
        if not self._following:
            await self._strike_notes()
            self._following = True
            self._mirror.start()
        await self._mirror.when_complete()
        self._dirty |= {*self._stored.entries, *self._mirror.values}
        await self._settle_dirty()
        self.settled = True
        self._work()

    async def _strike_notes(self) -> None:
        # Notes on what is not stored here any more; before the mirror sees anything, so that it sees nothing older.
        uuids = {entry.uuid for entry in self._stored.entries.values()}
        try:
            noted = await self._tree.get_children(paths.DELETED_TOPICS)
        except NoNode:
            noted = []
        for each in noted:
            if each not in uuids:
                try:
                    await removed_by(self._tree, each, self._me)
                except ValueError as error:
                    self._log.warn("passed over: {error}", error=str(error))

    def halt(self) -> None:
        """Follow the tree no more, and make and delete nothing more."""
        self._stopping = True
        self._ends.halt()
        self._mirror.stop()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    async def when_idle(self) -> None:
        """Done when nothing is under way."""
        await self._turns.when_idle()

    @property
    def conflicts(self) -> dict[str, str]:
        """Why what is stored of a topic is not served, by topic."""
        return self._comparison.conflicts

    def problem(self, topic: str) -> str | None:
        """See ITopics."""
        return self._comparison.unusable.get(topic)

    def names(self) -> list[str]:
        """See ITopics."""
        return sorted(self._entries)

    def get(self, topic: str) -> TopicEntry | None:
        """See ITopics."""
        return self._entries.get(topic)

    def create(self, topic: str, partitions: int, settings: Mapping[str, int]) -> Deferred[TopicEntry]:
        """See ITopics. Partitions are spread over the live brokers; the logs that are ours are there when it fires.

        Fails also with CoordinationUnavailable, and with StorageFull or UnknownError when our disk does not take it.
        """
        return Deferred.fromCoroutine(self._create(topic, partitions, settings))

    def delete(self, topic: str) -> Deferred[None]:
        """See ITopics. Our logs are gone when it fires; other brokers remove theirs when they see it.

        Fails also with CoordinationUnavailable; and when the topic is deleted but our disk does not let go of it yet.
        """
        return Deferred.fromCoroutine(self._delete(topic))

    async def _create(self, topic: str, partitions: int, settings: Mapping[str, int]) -> TopicEntry:
        check_topic_name(topic)
        since = self._clock.seconds()
        async with self._turns.on(topic):
            if topic in self._entries:
                raise TopicExists(f"topic {topic!r} exists already")
            self._check_new(topic, partitions, settings)
            self._check_ready(f"topic {topic!r} cannot be made", since)
            self._claimed[topic] = partitions
            try:
                return await self._make(topic, self._spread.over(partitions), settings)
            finally:
                del self._claimed[topic]

    async def _make(
        self, topic: str, brokers: Mapping[int, tuple[int, ...]], settings: Mapping[str, int]
    ) -> TopicEntry:
        entry = TopicEntry(str(uuid.uuid4()), brokers, dict(settings))
        try:
            if topic in self._stored.entries:
                await self._settle(topic, self._shown(topic))  # of a former one something is left
            await create_topic(self._tree, topic, entry)
        except TopicExists:
            await self._look_up(topic)
            raise
        except CoordinationError as error:
            raise CoordinationUnavailable(f"topic {topic!r} cannot be made: {error}") from error
        await self._make_ours(topic, entry)
        return entry

    async def _make_ours(self, topic: str, entry: TopicEntry) -> None:
        self._ends.begin_new(topic, entry)
        try:
            await self._stored.keep(topic, entry)
            await self._ends.record(topic, self._stored.mine(entry))
        except CoordinationError as error:
            self._try_again(topic, error)
            raise CoordinationUnavailable(f"topic {topic!r} is not made yet: {error}") from error
        except WireError as error:
            if set(self._stored.mine(entry)) == set(entry.partitions):
                await self._take_back(topic)
            else:
                self._try_again(topic, error)  # others have begun to serve it: it stays
            raise
        self._entries[topic] = entry
        self.on_change()

    async def _take_back(self, topic: str) -> None:
        """Delete a topic that nobody has seen yet, because our disk does not take it."""
        try:
            await delete_topic(self._tree, topic)
            await self._forget(topic)
        except (CoordinationError, WireError) as error:
            self._log.warn(
                "topic {topic} could not be made, but is perhaps there after the next start: {error}",
                topic=topic,
                error=str(error),
            )
            self._dirty.add(topic)

    async def _look_up(self, topic: str) -> None:
        """Take over a topic that another broker has made, before its watch fires."""
        try:
            await self._settle(topic, await read_topic(self._tree, topic))
        except (CoordinationError, WireError, ValueError) as error:
            self._try_again(topic, error)

    async def _delete(self, topic: str) -> None:
        since = self._clock.seconds()
        async with self._turns.on(topic):
            self._check_ready(f"topic {topic!r} cannot be deleted", since)
            try:
                await delete_topic(self._tree, topic)
            except CoordinationError as error:
                self._dirty.add(topic)
                raise CoordinationUnavailable(f"topic {topic!r} cannot be deleted: {error}") from error
            try:
                await self._forget(topic)
            except (CoordinationError, WireError) as error:
                self._try_again(topic, error)
                if isinstance(error, WireError):
                    raise

    async def _forget(self, topic: str) -> None:
        """Remove what is stored here of a topic that was just deleted."""
        shown = self._mirror.values.get(topic)
        if shown is not None:
            self._deleted[topic] = shown.uuid
        await self._settle(topic, None)

    def _check_new(self, topic: str, partitions: int, settings: Mapping[str, int]) -> None:
        used = sum(len(entry.partitions) for entry in self._entries.values()) + sum(self._claimed.values())
        room = self._settings.topics_max - used
        if not 1 <= partitions <= room:
            raise InvalidTopic(
                f"topic {topic!r} cannot have {partitions} partitions; allowed here is 1 to {room} "
                f"(topics.max = {self._settings.topics_max} in all, {used} are in use)"
            )
        try:
            self._settings.log_settings(settings)
        except ConfigurationError as error:
            raise InvalidTopic(f"topic {topic!r}: {error}") from error

    def _check_ready(self, what: str, since: float) -> None:
        """Raise unless the tree can be asked. Who has waited for a turn for as long as for an answer gets none."""
        if self._stopping:
            raise BrokerStopping("the broker is stopping")
        waited = (self._clock.seconds() - since) * 1000
        if self._tree.state is not SessionState.CONNECTED and waited >= self._settings.zookeeper_timeout_ms:
            raise CoordinationUnavailable(f"{what}: the coordination tree does not answer")
        if not self.settled:
            raise CoordinationUnavailable(f"{what} before the coordination tree was reached: try again soon")

    # What the tree tells.

    def _changed(self, topic: str) -> None:
        shown = self._mirror.values.get(topic)
        if topic in self._deleted and (shown is None or shown.uuid != self._deleted[topic]):
            del self._deleted[topic]
        self.recheck(topic)

    def _hide(self, topic: str) -> None:
        self._entries.pop(topic, None)

    def recheck(self, topic: str) -> None:
        """Compare a topic again: something of it is served again, or a node of ours was changed."""
        self._dirty.add(topic)
        if self.settled:
            self._work()

    def _work(self) -> None:
        if not self._working and not self._stopping:
            self._working = True
            Deferred.fromCoroutine(self._work_off()).addErrback(self._failed)

    async def _work_off(self) -> None:
        try:
            while self._dirty and not self._stopping:
                if not await self._settle_dirty():
                    self._retry_later()  # the timer of what failed first may have fired before the others were done
                    return
        finally:
            self._working = False

    async def _settle_dirty(self) -> bool:
        """Compare what is to be compared; whether all of it could be settled."""
        topics, self._dirty = sorted(self._dirty), set()
        waiting = iter(topics)
        whole = True

        async def compare() -> None:
            nonlocal whole
            for topic in waiting:
                async with self._turns.on(topic):
                    if self._stopping:
                        return
                    try:
                        await self._settle(topic, self._shown(topic))
                    except (CoordinationError, WireError, ValueError) as error:
                        self._try_again(topic, error)
                        whole = False

        count = min(COMPARED_AT_ONCE, len(topics))
        comparing = DeferredList([Deferred.fromCoroutine(compare()) for _ in range(count)], consumeErrors=True)
        outcomes: Sequence[tuple[bool, Any]] = await comparing
        for well, failure in outcomes:
            if not well:
                failure.raiseException()
        return whole

    def _shown(self, topic: str) -> TopicEntry | None:
        entry = self._mirror.values.get(topic)
        return None if entry is not None and entry.uuid == self._deleted.get(topic) else entry

    async def _settle(self, topic: str, entry: TopicEntry | None) -> None:
        entry = await self._comparison.settle(topic, entry)
        self._troubles.pop(topic, None)
        if entry is None:
            self._entries.pop(topic, None)
        else:
            self._entries[topic] = entry

    def _try_again(self, topic: str, error: Exception) -> None:
        text = str(error)
        if self._troubles.get(topic) != text:  # once, not every few seconds until a person has mended it
            self._troubles[topic] = text
            self._log.warn(
                "topic {topic} is not as the coordination tree has it yet; trying again until it is: {error}",
                topic=topic,
                error=text,
            )
        self._dirty.add(topic)
        self._retry_later()

    def _retry_later(self) -> None:
        if self._retry is None and not self._stopping:
            self._retry = self._clock.callLater(RETRY_SECONDS, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self._work()

    def _failed(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            self._log.failure("a bug in following the coordination tree", failure)
