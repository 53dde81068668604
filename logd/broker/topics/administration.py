"""Creates and deletes topics: a create in the coordination tree decides, a delete leaves a note for other brokers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from attrs import define, field
from twisted.internet.defer import Deferred

from logd.broker.topics.directory import TopicDirectory
from logd.broker.topics.ends_recorder import EndsRecorder
from logd.broker.topics.placement import Placement
from logd.broker.topics.reconciler import TopicReconciler
from logd.broker.topics.stored_topics import StoredTopics
from logd.config import BrokerSettings
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState
from logd.coord.registries.topics import create_topic, delete_topic, read_topic
from logd.errors import (
    BrokerStopping,
    ConfigurationError,
    CoordinationUnavailable,
    InvalidTopic,
    TopicExists,
    WireError,
)
from logd.interfaces import Clock
from logd.topic import TopicEntry, check_topic_name


@define(eq=False)
class TopicAdministration:
    """One topic is created, deleted or reconciled at a time; different topics do not wait for one another.

    What fails half-way is left to the reconciler, which tries until tree and broker agree.
    """

    _tree: ICoordination
    _stored: StoredTopics
    _settings: BrokerSettings
    _clock: Clock
    _placement: Placement
    _ends: EndsRecorder
    _directory: TopicDirectory
    _reconciler: TopicReconciler
    #: Partitions of topics that are being made.
    _claimed: dict[str, int] = field(factory=dict, init=False)

    def create(self, topic: str, partitions: int, settings: Mapping[str, int]) -> Deferred[TopicEntry]:
        """Create a topic whose partitions are spread over the live brokers; this broker's logs are there when it fires.

        Fails with TopicExists, InvalidTopic, CoordinationUnavailable, BrokerStopping, and with StorageFull or
        UnknownError when this broker's disk does not take it. Of two creations at once one makes the topic.
        """
        return Deferred.fromCoroutine(self._create(topic, partitions, settings))

    def delete(self, topic: str) -> Deferred[None]:
        """Delete a topic. This broker's logs are gone when it fires; others remove theirs when they see it.

        Fails with UnknownTopic, CoordinationUnavailable, BrokerStopping; and with StorageFull or UnknownError when the
        topic is deleted but this broker's disk does not let go of it yet.
        """
        return Deferred.fromCoroutine(self._delete(topic))

    async def _create(self, topic: str, partitions: int, settings: Mapping[str, int]) -> TopicEntry:
        check_topic_name(topic)
        since = self._clock.seconds()
        async with self._reconciler.locks.hold(topic):
            if self._directory.get(topic) is not None:
                raise TopicExists(f"topic {topic!r} exists already")
            self._check_new(topic, partitions, settings)
            self._check_ready(f"topic {topic!r} cannot be made", since)
            self._claimed[topic] = partitions
            try:
                return await self._make(topic, self._placement.of(partitions), settings)
            finally:
                del self._claimed[topic]

    async def _make(
        self, topic: str, brokers: Mapping[int, tuple[int, ...]], settings: Mapping[str, int]
    ) -> TopicEntry:
        entry = TopicEntry(str(uuid.uuid4()), brokers, dict(settings))
        try:
            if topic in self._stored.entries:
                await self._reconciler.settle_shown(topic)  # of a former one something is left
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
        mine = self._stored.mine(entry)
        try:
            await self._stored.keep(topic, entry)
            await self._ends.record(topic, mine)
        except CoordinationError as error:
            self._reconciler.try_again(topic, error)
            raise CoordinationUnavailable(f"topic {topic!r} is not made yet: {error}") from error
        except WireError as error:
            if set(mine) == set(entry.partitions):
                await self._take_back(topic)
            else:
                self._reconciler.try_again(topic, error)  # others have begun to serve it: it stays
            raise
        self._directory.show(topic, entry)
        self._reconciler.on_change()

    async def _take_back(self, topic: str) -> None:
        """Delete a topic that nobody has seen yet, because this broker's disk does not take it."""
        try:
            await delete_topic(self._tree, topic)
            await self._reconciler.forget(topic)
        except (CoordinationError, WireError) as error:
            self._reconciler.try_again(topic, error)

    async def _look_up(self, topic: str) -> None:
        """Take over a topic that another broker has made, before its watch fires."""
        try:
            await self._reconciler.settle(topic, await read_topic(self._tree, topic))
        except (CoordinationError, WireError, ValueError) as error:
            self._reconciler.try_again(topic, error)

    async def _delete(self, topic: str) -> None:
        since = self._clock.seconds()
        async with self._reconciler.locks.hold(topic):
            self._check_ready(f"topic {topic!r} cannot be deleted", since)
            try:
                await delete_topic(self._tree, topic)
            except CoordinationError as error:
                self._reconciler.try_again(topic, error)  # perhaps it is deleted, and only the answer was lost
                raise CoordinationUnavailable(f"topic {topic!r} cannot be deleted: {error}") from error
            try:
                await self._reconciler.forget(topic)
            except (CoordinationError, WireError) as error:
                self._reconciler.try_again(topic, error)
                if isinstance(error, WireError):
                    raise

    def _check_new(self, topic: str, partitions: int, settings: Mapping[str, int]) -> None:
        used = self._directory.partitions + sum(self._claimed.values())
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
        """Raise unless the tree can be asked. Who has waited for a lock for as long as for an answer gets none."""
        if self._reconciler.stopping:
            raise BrokerStopping("the broker is stopping")
        waited = (self._clock.seconds() - since) * 1000
        if self._tree.state is not SessionState.CONNECTED and waited >= self._settings.zookeeper_timeout_ms:
            raise CoordinationUnavailable(f"{what}: the coordination tree does not answer")
        if not self._reconciler.settled:
            raise CoordinationUnavailable(f"{what} before the coordination tree was reached: try again soon")
