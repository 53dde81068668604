"""The replicas on this broker: one Replica for each log of a replicated topic, one fetcher for each leader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from attrs import define, field
from twisted.logger import Logger

from logd.broker.replication.broker_links import BrokerLinks
from logd.broker.replication.catch_up import CatchUpThrottle
from logd.broker.replication.followers import EarlyFollowers
from logd.broker.replication.hand_over import ChangeToSuccessor, HandOver
from logd.broker.replication.in_sync_set import InSyncSet
from logd.broker.replication.leader import LeaderRole
from logd.broker.replication.leader_looks import LeaderLooks
from logd.broker.topics.directory import TopicDirectory
from logd.broker.topics.ends_recorder import EndsRecorder
from logd.config.replication import ReplicationSettings
from logd.coord.elections import handed_over
from logd.coord.partition_state import PartitionState
from logd.coord.registries.partition_states import KnownState, PartitionStates
from logd.interfaces import Clock, IThreads
from logd.leadership import NO_LEADER, PartitionLeadership
from logd.log.partition import PartitionLog
from logd.log.store.log_store import LogStore
from logd.topic import TopicEntry

if TYPE_CHECKING:
    from logd.broker.replication.replica import Replica
    from logd.broker.replication.replica_fetcher import ReplicaFetcher


class ReplicaFigures(NamedTuple):
    """Numbers of replicas on one broker."""

    replicas: int
    #: Partitions that this broker leads; those whose replicas are not all in sync; those below min.insync.replicas.
    led: int
    under_replicated: int
    below_minimum: int
    #: Partitions stored here that no broker leads.
    leaderless: int


class ReplicaIndex(dict[tuple[str, int], "Replica"]):
    """Finds a partition's replica, and those of a topic without a look at all others. Change it by these methods."""

    def __init__(self) -> None:
        """Begin with none."""
        super().__init__()
        self._numbers: dict[str, set[int]] = {}

    def add(self, replica: Replica) -> None:
        """Add a replica."""
        topic, number = replica.log.topic, replica.log.partition
        self[topic, number] = replica
        self._numbers.setdefault(topic, set()).add(number)

    def of_topic(self, topic: str) -> list[Replica]:
        """Return the replicas of a topic."""
        return [self[topic, number] for number in self._numbers.get(topic, ())]

    def offline(self) -> list[Replica]:
        """Return the replicas whose logs cannot be served."""
        return [replica for replica in self.values() if replica.log.offline is not None]

    def stop_others(self, topic: str, kept: Collection[int] = ()) -> None:
        """Stop and remove the replicas of a topic, but those of the partitions ``kept``."""
        numbers = self._numbers.get(topic, set())
        for number in numbers.difference(kept):
            numbers.discard(number)
            self.pop((topic, number)).stop()
        if not numbers:
            self._numbers.pop(topic, None)


@define(eq=False)
class Fetchers:
    """The fetchers of one broker, one for each leader that it follows."""

    _clock: Clock
    _instance: Callable[[], str]
    _max_bytes: int
    _links: BrokerLinks
    _random: Callable[[], float]
    _by_leader: dict[int, ReplicaFetcher] = field(factory=dict, init=False)
    _stopped: bool = field(default=False, init=False)

    def of(self, leader: int) -> ReplicaFetcher:
        """Return the fetcher of what a broker leads."""
        fetcher = self._by_leader.get(leader)
        if fetcher is None:
            from logd.broker.replication.replica_fetcher import ReplicaFetcher  # most brokers have no replicated topics

            fetcher = self._by_leader[leader] = ReplicaFetcher(
                leader, self._instance, self._clock, self._max_bytes, self._links, self._random
            )
            if not self._stopped:
                fetcher.start()
        return fetcher

    def end_idle(self) -> None:
        """End the fetchers that nothing follows."""
        for leader in [leader for leader, fetcher in self._by_leader.items() if not len(fetcher)]:
            self._by_leader.pop(leader).stop()

    def stop(self) -> None:
        """Fetch nothing any more. May be called again."""
        self._stopped = True
        for fetcher in self._by_leader.values():
            fetcher.stop()


@define(eq=False)
class ReplicaManager:
    """The replicas of one broker. Owner thread only."""

    _log = Logger()

    store: LogStore
    states: PartitionStates
    threads: IThreads
    clock: Clock
    _topics: TopicDirectory
    _ends: EndsRecorder
    _settings: ReplicationSettings
    #: Returns the instance of each live broker, as last seen.
    _live: Callable[[], Mapping[int, str]]
    links: BrokerLinks
    _random: Callable[[], float]
    #: Limits the bytes that are sent to replicas that are not in sync.
    throttle: CatchUpThrottle = field(init=False)
    _replicas: ReplicaIndex = field(factory=ReplicaIndex, init=False)
    _fetchers: Fetchers = field(init=False)
    _uuids: dict[str, str] = field(factory=dict, init=False)
    _looks: LeaderLooks = field(init=False)
    early_followers: EarlyFollowers = field(factory=EarlyFollowers, init=False)
    #: Called when a state or a topic has changed.
    on_change: Callable[[str, int], None] = field(default=lambda topic, partition: None, init=False)
    #: Called with a log whose role begins or ends.
    on_role: Callable[[PartitionLog], None] = field(default=lambda log: None, init=False)
    #: Called with a log here that leads, and the first position and number of bytes that a follower may have refused.
    on_repeated: Callable[[PartitionLog, int, int], None] = field(default=lambda log, position, count: None, init=False)
    stopping: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        rate = self._settings.replica_catchup_bytes_per_second
        self.throttle = CatchUpThrottle(self.clock, None if rate == -1 else rate)
        most = self._settings.replica_fetch_bytes
        self._fetchers = Fetchers(self.clock, lambda: self.store.instance, most, self.links, self._random)
        self._looks = LeaderLooks(self.clock, self._leaders, self._fetchers.end_idle)

    def start(self) -> None:
        """Follow the states of partitions, and begin to lead and to follow."""
        self.states.changed = self._state_changed
        self._ends.compared = self._look_at_topic
        self.states.start()
        for topic in self._topics.names():
            entry = self._topics.get(topic)
            if entry is not None:
                self.topic_shown(topic, entry)
        self._looks.start()

    def stop_following(self) -> None:
        """Copy nothing any more, so that the logs can be flushed for the last time; lead as before."""
        self._fetchers.stop()

    def stop(self) -> None:
        """Lead and follow no more."""
        self.stopping = True
        self._looks.stop()
        self.states.stop()
        for replica in self._replicas.values():
            replica.stop()
        self._fetchers.stop()

    # Questions of others

    def replica(self, topic: str, partition: int) -> Replica | None:
        """Return the replica of a partition here, None if there is none."""
        return self._replicas.get((topic, partition))

    def leader(self, topic: str, partition: int) -> LeaderRole | None:
        """Return the role of a log here that leads; None for any other."""
        replica = self._replicas.get((topic, partition))
        role = None if replica is None else replica.role
        return role if isinstance(role, LeaderRole) else None

    def leadership(
        self, topic: str, partition: int, entry: TopicEntry, live: Mapping[int, object]
    ) -> PartitionLeadership:
        """Return who leads a partition, as last seen; ``live`` are the brokers that are registered."""
        replicas = entry.partitions.get(partition, ())
        if not entry.replicated:
            return PartitionLeadership.of_first_live(replicas, live)
        known = self.states.get(topic, partition)
        if known is None:
            return PartitionLeadership(NO_LEADER, 0, replicas, ())
        state = known.state
        leader = state.leader if state.leader in live else NO_LEADER
        return PartitionLeadership(leader, state.leader_epoch, replicas, state.in_sync)

    def figures(self) -> ReplicaFigures:
        """Return the numbers of replicas. May be called on any thread."""
        roles = [replica.role for replica in list(self._replicas.values())]
        led = [role for role in roles if isinstance(role, LeaderRole)]
        return ReplicaFigures(
            len(roles),
            len(led),
            sum(role.is_under_replicated for role in led),
            sum(len(role.in_sync) < role.log.settings.min_insync_replicas for role in led),
            sum(known.state.leader == NO_LEADER for key in list(self._replicas) if (known := self.states.get(*key))),
        )

    # Changes of topics, logs, states and brokers

    def topic_shown(self, topic: str, entry: TopicEntry) -> None:
        """Take a topic as it is now."""
        if self._uuids.get(topic, entry.uuid) != entry.uuid:  # deleted, and created again
            self.topic_hidden(topic)
        self._uuids[topic] = entry.uuid
        if entry.replicated:
            self.states.follow(topic, entry.uuid, entry.partitions)
            for log in self.store.logs_of(topic):
                self.log_opened(log)
            self._look_at_topic(topic)
            self._forget_left(topic, entry)
        elif self.states.is_followed(topic):
            self.topic_hidden(topic)

    def topic_hidden(self, topic: str) -> None:
        """Forget a topic."""
        self._uuids.pop(topic, None)
        self.states.forget(topic)
        self._replicas.stop_others(topic)

    def _forget_left(self, topic: str, entry: TopicEntry) -> None:
        """Forget the replicas that other brokers store now."""
        here = {number for number, replicas in entry.partitions.items() if self.store.broker_id in replicas}
        self._replicas.stop_others(topic, here)

    def log_opened(self, log: PartitionLog) -> None:
        """Take a log that is opened, made, or served again."""
        entry = self._topics.get(log.topic)
        if self.stopping or not (log.visible_limit is not None or (entry is not None and entry.replicated)):
            return
        if log.visible_limit is None:  # until now this was the only replica
            log.visible_limit = log.visible_end
        key = (log.topic, log.partition)
        replica = self._replicas.get(key)
        if replica is None:
            from logd.broker.replication.replica import Replica  # most brokers have no replicated topics

            replica = Replica(log, self)
            self._replicas.add(replica)
            replica.look()
        elif replica.log is not log:
            replica.bind(log)

    def brokers_changed(self) -> None:
        """Look again at what depends on live brokers."""
        self._looks.all()
        if not self.stopping:
            for replica in self._replicas.offline():  # they may be waiting for another broker that can lead
                replica.look()

    def _state_changed(self, topic: str, partition: int) -> None:
        replica = self._replicas.get((topic, partition))
        if replica is not None and not self.stopping:
            replica.look()
        self.on_change(topic, partition)

    def _look_at_topic(self, topic: str) -> None:
        for replica in self._replicas.of_topic(topic):
            replica.look()

    def _leaders(self) -> list[LeaderRole]:
        roles = (replica.role for replica in self._replicas.values())
        return [role for role in roles if isinstance(role, LeaderRole)]

    # ReplicaOwner

    def known(self, topic: str, partition: int) -> tuple[KnownState | None, tuple[int, ...]]:
        """See ReplicaOwner."""
        entry = self._topics.get(topic)
        if entry is None or not entry.replicated:
            return None, ()
        return self.states.get(topic, partition), entry.partitions.get(partition, ())

    def live(self) -> Mapping[int, str]:
        """See ReplicaOwner."""
        return self._live()

    def fetcher(self, leader: int) -> ReplicaFetcher:
        """See ReplicaOwner."""
        return self._fetchers.of(leader)

    def lead(
        self, log: PartitionLog, known: KnownState, replicas: tuple[int, ...], offline: Callable[[], None]
    ) -> LeaderRole:
        """See ReplicaOwner."""
        me, lag = self.store.broker_id, self._settings.replica_lag_ms / 1000
        return LeaderRole(
            log,
            me,
            known.state.leader_epoch,
            known,
            replicas,
            self.clock,
            partial(self.states.change, log.topic, log.partition),
            InSyncSet(me, self.clock, self._live, lag, self._looks.in_sync_log.note),
            offline,
            self._looks.looking,
        )

    def begun(self, log: PartitionLog) -> None:
        """See ReplicaOwner."""
        self.early_followers.begun((log.topic, log.partition))

    def is_compared(self, topic: str, uuid: str) -> bool:
        """See ReplicaOwner."""
        return self._ends.is_compared(topic, uuid)

    def is_lost(self, topic: str, partition: int) -> bool:
        """See ReplicaOwner."""
        return self._ends.lost(topic, partition) is not None

    async def relinquish(self, topic: str, partition: int) -> None:
        """See ReplicaOwner."""
        await self._ends.relinquish(topic, partition)

    async def lower_stored_end(self, topic: str, partition: int, position: int) -> None:
        """See ReplicaOwner."""
        await self._ends.lower(topic, partition, position)

    def change_state(
        self, topic: str, partition: int, known: KnownState, state: PartitionState
    ) -> Coroutine[Any, Any, KnownState]:
        """See ReplicaOwner."""
        return self.states.change(topic, partition, known, state)

    # Other leaders

    @property
    def _leaderships(self) -> HandOver:
        return HandOver(
            self.clock,
            self.store,
            self.states,
            self._topics,
            self._live,
            self._replicas,
            self._leaders,
            lambda: self.stopping,
        )

    async def hand_over(self, until: float) -> None:
        """See HandOver.hand_all_over."""
        await self._leaderships.hand_all_over(until)

    async def give_way(
        self,
        role: LeaderRole,
        seconds: float,
        able: Collection[int] | None = None,
        changed: ChangeToSuccessor = handed_over,
    ) -> bool:
        """See HandOver.give_way."""
        return await self._leaderships.give_way(role, seconds, able, changed)

    def healing_sources(self, topic: str, partition: int) -> tuple[int, ...]:
        """Return the other in-sync replicas that are live with the disk that the state names, the leader first."""
        known = self.states.get(topic, partition)
        if known is None:
            return ()
        state, me = known.state, self.store.broker_id
        others = [broker for broker in state.live_among(state.in_sync, self._live()) if broker != me]
        return tuple(sorted(others, key=lambda broker: (broker != state.leader, broker)))
