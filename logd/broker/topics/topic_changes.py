"""Creates, alters and deletes topics. The node in the tree decides; a deletion leaves a note for other brokers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.broker.topics.directory import TopicDirectory
from logd.broker.topics.ends_recorder import EndsRecorder
from logd.broker.topics.placement import Placement
from logd.broker.topics.reconciler import TopicReconciler
from logd.broker.topics.stored_topics import StoredTopics
from logd.config import BrokerSettings, LogSettings
from logd.coord.elections import initial_state
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.partition_state import PartitionState
from logd.coord.records import SessionState
from logd.coord.registries.operator_requests import read_draining
from logd.coord.registries.topics import ChangeUncertain, change_topic, create_topic, read_topic
from logd.errors import (
    BrokerStopping,
    ConfigurationError,
    CoordinationUnavailable,
    InvalidTopic,
    NoLeader,
    TopicExists,
    UnknownTopic,
    WireError,
)
from logd.interfaces import Clock
from logd.plurals import counted
from logd.topic import TopicEntry, check_topic_name

#: The most partitions of a replicated topic that one transaction makes; ZooKeeper refuses requests above 1 MiB.
MOST_STATES = 1_500

#: No settings to change.
NO_CHANGES: Mapping[str, str] = MappingProxyType({})


@define(eq=False)
class TopicAdministration:
    """Creates, alters and deletes topics. Each topic has one change at a time, and no topic waits for another.

    A change that fails half-way is left to the reconciler, which retries until the tree and the broker agree.
    """

    _log = Logger()

    _tree: ICoordination
    _stored: StoredTopics
    _settings: BrokerSettings
    _clock: Clock
    _placement: Placement
    _ends: EndsRecorder
    _directory: TopicDirectory
    _reconciler: TopicReconciler
    #: Returns the instance of each live broker.
    _instances: Callable[[], Mapping[int, str]]
    #: Returns the reason why this broker is not registered in the tree; None if it is.
    registration_problem: Callable[[], str | None] = field(default=lambda: None, init=False)
    #: The number of partitions of topics that are being created.
    _claimed: dict[str, int] = field(factory=dict, init=False)

    def create(
        self,
        topic: str,
        partitions: int,
        settings: Mapping[str, int | str],
        *,
        kafka_settings: Mapping[str, str] = NO_CHANGES,
        brokers: Mapping[int, tuple[int, ...]] | None = None,
        created_by: str = "",
        replicas: int = 0,
    ) -> Deferred[TopicEntry]:
        """Create a topic. Fires once this broker's logs exist.

        ``replicas``: the number of brokers that store each partition, 0 for the setting default.replicas.
        ``brokers`` has the broker of each partition; None: they are spread over the live brokers. ``created_by`` is the
        user for whose quota the topic counts. Fails with
        TopicExists, InvalidTopic, CoordinationUnavailable, BrokerStopping, and with StorageFull or UnknownError if this
        broker's disk fails. Of two concurrent creations one succeeds.
        """
        return Deferred.fromCoroutine(
            self._create(topic, partitions, settings, kafka_settings, brokers, created_by, replicas)
        )

    def check_create(self, topic: str, partitions: int, settings: Mapping[str, int | str]) -> None:
        """Raise what ``create`` would fail with, as far as that is known without the tree and the disk."""
        check_topic_name(topic)
        if self._directory.get(topic) is not None:
            raise TopicExists(f"topic {topic!r} exists already")
        self._check_new(topic, partitions, settings)
        self._check_ready(f"topic {topic!r} cannot be created", self._clock.seconds())

    def refusal(self, topic: str, partition: int) -> str | None:
        """Return the reason for which a log here is refused, as it contradicts the tree; None for any other."""
        return self._stored.refusal(topic, partition)

    def delete(self, topic: str) -> Deferred[None]:
        """Delete a topic. Fires once this broker's logs are removed; other brokers remove theirs when they see it.

        Fails with UnknownTopic, CoordinationUnavailable, BrokerStopping, and with StorageFull or UnknownError if the
        topic is deleted but its logs could not be removed from this broker's disk yet.
        """
        return Deferred.fromCoroutine(self._delete(topic))

    def alter(
        self, topic: str, uuid: str = "", partitions: int = 0, settings: Mapping[str, str] = NO_CHANGES
    ) -> Deferred[TopicEntry]:
        """Change a topic's settings, given as text ("": the broker's own), and its number of partitions (0: none).

        ``uuid``, if it is not empty, is that of the topic that is meant. Fires with the new entry once this broker acts
        on it; other brokers do when they see it. Fails with UnknownTopic, InvalidTopic, CoordinationUnavailable,
        BrokerStopping, and with StorageFull or UnknownError if the topic is changed but this broker's disk fails.
        """

        def change(entry: TopicEntry) -> TopicEntry:
            if uuid and uuid != entry.uuid:
                raise UnknownTopic(f"there is no topic {topic!r} with the uuid {uuid!r} any more")
            return self.with_partitions(topic, self._with_settings(topic, entry, settings), partitions)

        return self.change(topic, change)

    def change(self, topic: str, change: Callable[[TopicEntry], TopicEntry]) -> Deferred[TopicEntry]:
        """Replace a topic's entry by ``change(entry)``, which may be called several times, and act on it.

        Fires and fails as ``alter`` does, and with what ``change`` raises.
        """
        return Deferred.fromCoroutine(self._change(topic, change))

    async def _change(self, topic: str, change: Callable[[TopicEntry], TopicEntry]) -> TopicEntry:
        check_topic_name(topic)
        since = self._clock.seconds()
        async with self._reconciler.locks.hold(topic):
            self._check_ready(f"topic {topic!r} cannot be changed", since)
            try:
                self._placement.draining = await read_draining(self._tree)
                former, entry = await change_topic(self._tree, topic, change, partial(self._states, topic))
            except CoordinationError as error:
                self._reconciler.try_again(topic, error)  # the entry may be changed, with only the answer lost
                may = "may not be changed" if isinstance(error, ChangeUncertain) else "cannot be changed"
                raise CoordinationUnavailable(f"topic {topic!r} {may}: {error}") from error
            try:
                await self._reconciler.alter(topic, former, entry)
            except (CoordinationError, CoordinationUnavailable, ValueError) as error:
                self._reconciler.try_again(topic, error)  # the topic is changed: what waits for the tree comes later
            except WireError as error:
                self._reconciler.try_again(topic, error)
                raise
            return entry

    def _with_settings(self, topic: str, entry: TopicEntry, settings: Mapping[str, str]) -> TopicEntry:
        removed = {name for name, text in settings.items() if not text}
        kept = {name: value for name, value in entry.settings.items() if name not in removed}
        try:
            LogSettings.check_names(removed.difference(entry.settings))
            merged = {**kept, **LogSettings.parse({name: text for name, text in settings.items() if text})}
            if settings:
                self._settings.log_settings(merged)
        except ConfigurationError as error:
            raise InvalidTopic(f"topic {topic!r}: {error}") from error
        return evolve(entry, settings=merged)

    def with_partitions(
        self, topic: str, entry: TopicEntry, partitions: int, brokers: Sequence[tuple[int, ...]] | None = None
    ) -> TopicEntry:
        """Return the topic's entry with ``partitions`` of them, 0 for as many as it has.

        ``brokers`` are those of the new partitions, in order; None: they are spread. Raises InvalidTopic for a number
        that is too low or too high.
        """
        before = len(entry.partitions)
        if partitions in (0, before):
            return entry
        room = self._settings.topics_max - self._directory.partitions - sum(self._claimed.values())
        if not before < partitions <= before + room:
            raise InvalidTopic(
                f"topic {topic!r} has {counted(before, 'partition')} and cannot have {partitions}; this broker allows "
                f"{before} to {before + room} (partitions are never removed; topics.max = {self._settings.topics_max})"
            )
        copies = max(map(len, entry.partitions.values()), default=1) if entry.replicated else 1
        placed = self._placement.of(partitions, copies)
        if brokers is not None and not entry.replicated and any(len(each) > 1 for each in brokers):
            raise InvalidTopic(
                f"topic {topic!r} is not replicated, so its new partitions are on one broker each: `logd topics "
                "reassign` gives all its partitions replicas"
            )
        unused = [number for number in placed if number not in entry.partitions]  # an entry made by hand may have holes
        added = unused[: partitions - before]
        if brokers is not None:
            placed = dict(zip(added, brokers, strict=True))
        return evolve(entry, partitions={**entry.partitions, **{number: placed[number] for number in added}})

    async def _create(
        self,
        topic: str,
        partitions: int,
        settings: Mapping[str, int | str],
        kafka_settings: Mapping[str, str],
        brokers: Mapping[int, tuple[int, ...]] | None,
        created_by: str,
        replicas: int,
    ) -> TopicEntry:
        check_topic_name(topic)
        since = self._clock.seconds()
        async with self._reconciler.locks.hold(topic):
            if self._directory.get(topic) is not None:
                raise TopicExists(f"topic {topic!r} exists already")
            self._check_new(topic, partitions, settings)
            self._check_ready(f"topic {topic!r} cannot be created", since)
            self._claimed[topic] = partitions
            try:
                if brokers is None:
                    self._placement.draining = await self._read_draining(topic)
                copies = replicas or self._settings.replication.default_replicas
                placed = self._placement.of(partitions, copies) if brokers is None else brokers
                replicated = any(len(each) > 1 for each in placed.values())
                new = TopicEntry(
                    str(uuid.uuid4()), placed, dict(settings), dict(kafka_settings), created_by, replicated
                )
                return await self._make(topic, new)
            finally:
                del self._claimed[topic]

    async def _read_draining(self, topic: str) -> frozenset[int]:
        try:
            return await read_draining(self._tree)
        except CoordinationError as error:
            raise CoordinationUnavailable(f"topic {topic!r} cannot be created: {error}") from error

    async def _make(self, topic: str, entry: TopicEntry) -> TopicEntry:
        try:
            if topic in self._stored.entries:
                await self._reconciler.settle_shown(topic)  # a former topic of this name has left something
            await create_topic(
                self._tree, topic, entry, self._states(topic, entry, entry.partitions) if entry.replicated else None
            )
        except TopicExists:
            await self._look_up(topic)
            raise
        except CoordinationError as error:
            raise CoordinationUnavailable(f"topic {topic!r} cannot be created: {error}") from error
        await self._make_ours(topic, entry)
        if entry.replicated:
            self._tell_of_a_lone_tree(topic)
        return entry

    def _tell_of_a_lone_tree(self, topic: str) -> None:
        """Log what a topic with replicas does not survive, where one server keeps the coordination tree."""
        hosts = self._settings.zookeeper_hosts
        if hosts is None or "," not in hosts:
            self._log.info(
                "topic {topic} has replicas, but one server alone keeps the coordination tree ({where}): the messages "
                "survive the loss of a broker, but while that server is away no leader is chosen. A cluster that has "
                "to outlive any machine needs an ensemble of ZooKeeper",
                topic=topic,
                where="that of this broker" if hosts is None else hosts,
            )

    def _states(self, topic: str, entry: TopicEntry, new: Iterable[int]) -> dict[int, PartitionState]:
        """Return the states of new partitions of a replicated topic. Raises InvalidTopic if they cannot be made."""
        numbers = list(new)
        if len(numbers) > MOST_STATES:
            raise InvalidTopic(
                f"topic {topic!r} cannot get {len(numbers)} replicated partitions at once; allowed are {MOST_STATES}: "
                "create it with fewer, and let it grow in several steps"
            )
        live, states = self._instances(), {}
        for number in numbers:
            replicas = entry.partitions[number]
            state = initial_state(replicas, live)
            if state is None:
                raise NoLeader(f"none of the brokers {list(replicas)} is live, which are to store {topic}-{number}")
            states[number] = state
        return states

    async def _make_ours(self, topic: str, entry: TopicEntry) -> None:
        self._ends.begin_new(topic, entry)
        mine = self._stored.mine(entry)
        try:
            if mine:
                await self._stored.keep(topic, entry)
            await self._ends.record(topic, mine)
        except CoordinationError as error:
            self._reconciler.try_again(topic, error)
            raise CoordinationUnavailable(f"topic {topic!r} is not created yet: {error}") from error
        except WireError as error:
            if set(mine) == set(entry.partitions):
                await self._take_back(topic)
            else:
                self._reconciler.try_again(topic, error)  # other brokers have begun to serve the topic: it stays
            raise
        self._directory.show(topic, entry)
        self._reconciler.on_change()

    async def _take_back(self, topic: str) -> None:
        """Delete a new topic that no other broker has seen yet, because this broker's disk failed."""
        try:
            await self._delete_nodes(topic)
            await self._reconciler.forget(topic)
        except (CoordinationError, WireError) as error:
            self._reconciler.try_again(topic, error)

    async def _look_up(self, topic: str) -> None:
        """Adopt a topic that another broker has created, before this broker's watch fires."""
        try:
            await self._reconciler.settle(topic, await read_topic(self._tree, topic))
        except (CoordinationError, WireError, ValueError) as error:
            self._reconciler.try_again(topic, error)

    async def _delete(self, topic: str) -> None:
        since = self._clock.seconds()
        async with self._reconciler.locks.hold(topic):
            self._check_ready(f"topic {topic!r} cannot be deleted", since)
            try:
                await self._delete_nodes(topic)
            except CoordinationError as error:
                self._reconciler.try_again(topic, error)  # the topic may be deleted, with only the answer lost
                raise CoordinationUnavailable(f"topic {topic!r} cannot be deleted: {error}") from error
            try:
                await self._reconciler.forget(topic)
            except (CoordinationError, WireError) as error:
                self._reconciler.try_again(topic, error)
                if isinstance(error, WireError):
                    raise

    async def _delete_nodes(self, topic: str) -> None:
        from logd.coord.registries.deleted_topics import delete_topic  # topics are rarely deleted

        await delete_topic(self._tree, topic)

    def _check_new(self, topic: str, partitions: int, settings: Mapping[str, int | str]) -> None:
        used = self._directory.partitions + sum(self._claimed.values())
        room = self._settings.topics_max - used
        if not 1 <= partitions <= room:
            raise InvalidTopic(
                f"topic {topic!r} cannot have {partitions} partitions; this broker allows 1 to {room} "
                f"(topics.max = {self._settings.topics_max} in total, {used} are in use)"
            )
        try:
            self._settings.log_settings(settings)
        except ConfigurationError as error:
            raise InvalidTopic(f"topic {topic!r}: {error}") from error

    def _check_ready(self, what: str, since: float) -> None:
        """Raise if the broker is stopping or has not joined the others, or the tree is silent since ``since``."""
        if self._reconciler.stopping:
            raise BrokerStopping("the broker is stopping")
        waited = (self._clock.seconds() - since) * 1000
        if self._tree.state is not SessionState.CONNECTED and waited >= self._settings.zookeeper_timeout_ms:
            raise CoordinationUnavailable(f"{what}: the coordination tree does not answer")
        if self._reconciler.settled:
            return
        if self._tree.state is not SessionState.CONNECTED:
            raise CoordinationUnavailable(f"{what} before the coordination tree is reached: try again soon")
        problem = self.registration_problem()
        if problem is not None:
            raise CoordinationUnavailable(f"{what}: this broker is not registered: {problem}")
        raise CoordinationUnavailable(
            f"{what} before this broker's topics are compared with the coordination tree: try again soon"
        )
