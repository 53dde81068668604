"""The requests of operators: plans, tasks for the controller, and descriptions of the replicas here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from attrs import define, field, frozen
from twisted.internet import defer
from twisted.logger import Logger

from logd.broker.replication.broker_links import ANSWER_SECONDS, BrokerLinks
from logd.broker.replication.control.operator_work import MOST_STATES
from logd.broker.replication.follower import FollowerRole
from logd.broker.replication.leader import LeaderRole
from logd.broker.replication.replica_manager import ReplicaManager
from logd.broker.topics.directory import TopicDirectory
from logd.coord.elections import elect_unclean, prefer
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.partition_state import PartitionState
from logd.coord.registries.operator_requests import (
    Reassignment,
    change_reassignment,
    read_draining,
    read_reassignments,
    request_election,
    set_draining,
    withdraw_election,
)
from logd.coord.registries.stored_ends import read_all_ends
from logd.deferreds.background import Background
from logd.deferreds.gathering import for_each
from logd.deferreds.sleeping import sleep
from logd.deferreds.timeouts import with_timeout
from logd.errors import InvalidRequest, LogdError, UnknownTopic
from logd.interfaces import Clock
from logd.plurals import counted
from logd.protocol.requests.replicas.describe_replicas import (
    FOLLOWS,
    LEADS,
    NO_LOG,
    NO_ROLE,
    OFFLINE,
    DescribedReplica,
    DescribeReplicas,
    DescribeReplicasResponse,
    FollowerEnd,
)
from logd.protocol.requests.replicas.operations import MovedPartition
from logd.topic import TopicEntry

_log = Logger()

#: Brokers that are asked at a time.
ASKED_AT_ONCE = 10
#: Seconds between two looks at the rates of reassignments.
RATE_SECONDS = 0.5


@frozen
class PendingReplicas:
    """A partition whose reassignment is not done: its replicas now, in the end, and before."""

    replicas: tuple[int, ...]
    wanted: tuple[int, ...]
    before: tuple[int, ...]


@define(eq=False)
class ReplicaOperations:
    """Writes to the tree what operators ask the controller for. Each call that waits raises CoordinationError."""

    _tree: ICoordination
    _topics: TopicDirectory
    _replication: ReplicaManager
    _me: int
    #: Returns the instance of each live broker, and the rack of each that names one.
    _live: Callable[[], Mapping[int, str]]
    _racks: Callable[[], Mapping[int, str]]
    _clock: Clock
    _links: BrokerLinks
    _reading: Background = field(factory=lambda: Background("reading the rates of reassignments"), init=False)
    _reads: bool = field(default=False, init=False)

    def look_at_rates(self) -> None:
        """Have this broker's throttle follow the rates of reassignments; call it when the replicas of topics change."""
        if not self._reads:
            self._reads = True
            self._reading.start(self._follow_rates())

    def stop(self) -> None:
        """Follow no rates."""
        self._reading.stop()

    async def _follow_rates(self) -> None:
        """Read the rates, again and again while there are reassignments."""
        try:
            while True:
                await sleep(self._clock, RATE_SECONDS)
                try:
                    found = await read_reassignments(self._tree)
                except CoordinationError:
                    continue
                rates = {topic: each.rate for topic, each in found.items() if each.rate}
                self._replication.throttle.limit_topics(rates)
                if not found:  # one without a rate may get one later
                    return
        finally:
            self._reads = False

    def entry(self, topic: str, uuid: str = "") -> TopicEntry:
        """Return a topic's entry. Raises UnknownTopic, also for a topic of this name with another uuid."""
        entry = self._topics.get(topic)
        if entry is None or (uuid and entry.uuid != uuid):
            raise UnknownTopic(f"there is no topic {topic!r}" + (f" with uuid {uuid}" if entry is not None else ""))
        return entry

    async def pending_of(self, topic: str, entry: TopicEntry) -> dict[int, tuple[int, ...]]:
        """Return the replicas to which partitions of a topic are being reassigned, and that are not in sync yet."""
        under_way = await self._under_way(topic, entry)
        return {} if under_way is None else self._pending(topic, entry, under_way)

    def _pending(self, topic: str, entry: TopicEntry, asked: Reassignment) -> dict[int, tuple[int, ...]]:
        return {
            number: wanted
            for number, wanted in asked.partitions.items()
            if number in entry.partitions and not self._is_done(topic, entry, number, wanted)
        }

    def plan(
        self,
        entry: TopicEntry,
        brokers: Sequence[int],
        replicas: int,
        pending: Mapping[int, tuple[int, ...]],
        draining: Collection[int],
    ) -> list[MovedPartition]:
        """Return what changes if the topic has ``replicas`` (0: as many as now) on these brokers (none: all live ones,
        without those ``draining`` if there are enough others).

        ``pending`` partitions are planned from the replicas that they are to have, and count as changes. Raises
        InvalidRequest if there are not so many brokers.
        """
        live = {*self._live(), self._me}
        partitions = {**entry.partitions, **pending}
        most = replicas or max(map(len, partitions.values()), default=0)
        others = live.difference(draining)
        chosen = sorted(set(brokers) or (others if len(others) >= max(most, 1) else live))
        self._check_brokers(chosen, live)
        if replicas < 0 or most > len(chosen):
            listed = ", ".join(map(str, chosen))
            raise InvalidRequest(f"{most} replicas are not possible on {counted(len(chosen), 'broker')}: {listed}")
        from logd.broker.replication.control.reassignment_plan import plan_reassignment  # few brokers are ever asked

        return _moved(entry, plan_reassignment(partitions, chosen, replicas, self._racks()), pending)

    def check_placed(
        self, entry: TopicEntry, placed: Iterable[tuple[int, Sequence[int]]], pending: Collection[int]
    ) -> list[MovedPartition]:
        """Return what changes if partitions get these replicas. Raises InvalidRequest if they cannot."""
        wanted = {}
        live = {*self._live(), self._me}
        for number, replicas in placed:
            if number not in entry.partitions:
                raise InvalidRequest(f"there is no partition {number}; the topic has {len(entry.partitions)}")
            if not replicas or len(set(replicas)) != len(replicas):
                raise InvalidRequest(f"partition {number} cannot be stored by {list(replicas)}: name different brokers")
            self._check_brokers([each for each in replicas if each not in entry.partitions[number]], live)
            wanted[number] = tuple(replicas)
        return _moved(entry, wanted, pending)

    def _check_brokers(self, brokers: Iterable[int], live: Iterable[int]) -> None:
        dead = sorted(set(brokers) - set(live))
        if dead:
            raise InvalidRequest(f"broker {dead[0]} is not live; live are {', '.join(map(str, sorted(live)))}")

    async def reassign(self, topic: str, entry: TopicEntry, moved: Iterable[MovedPartition], rate: int) -> None:
        """Ask for other replicas of some partitions; what was asked for others stands. Raises InvalidRequest."""
        self._check_size(entry)
        moves = {each.partition: each for each in moved}

        def change(former: Reassignment | None) -> Reassignment | None:
            if former is None or former.uuid != entry.uuid:
                former = Reassignment(entry.uuid)
            pending = self._pending(topic, entry, former)  # where a partition was before one that is done is the past
            before = {number: each.replicas for number, each in moves.items()}
            before |= {number: former.before[number] for number in pending if number in former.before}
            left = {number: wanted for number, wanted in pending.items() if number not in moves}
            wanted = {**left, **{number: each.wanted for number, each in moves.items()}}
            return Reassignment(entry.uuid, wanted, rate or (former.rate if left else 0), before)

        if moves:
            await change_reassignment(self._tree, topic, change)

    def _check_size(self, entry: TopicEntry) -> None:
        if not entry.replicated and len(entry.partitions) > MOST_STATES:
            raise InvalidRequest(f"a topic with more than {MOST_STATES} partitions cannot be given replicas: mirror it")

    async def change_replicas(
        self, topic: str, entry: TopicEntry, changes: Mapping[int, Sequence[int] | None]
    ) -> set[int]:
        """Ask for other replicas of some partitions, None for those that they had; what was asked of others stands.

        Return the partitions that should get back what they had, and are not reassigned. Raises InvalidRequest.
        """
        if any(changes.values()):
            self._check_size(entry)
        idle: set[int] = set()

        def change(former: Reassignment | None) -> Reassignment | None:
            if former is None or former.uuid != entry.uuid:
                former = Reassignment(entry.uuid)
            idle.clear()
            wanted, before = dict(former.partitions), dict(former.before)
            for number, replicas in changes.items():
                now = entry.partitions[number]
                if number not in wanted or self._is_done(topic, entry, number, wanted[number]):
                    if replicas is None:
                        idle.add(number)
                    elif tuple(replicas) != now:
                        wanted[number], before[number] = tuple(replicas), now
                    continue
                back = before.setdefault(number, now)
                if replicas is None and wanted[number] == back:
                    idle.add(number)  # it was cancelled before
                wanted[number] = back if replicas is None else tuple(replicas)
            return Reassignment(entry.uuid, wanted, former.rate, before) if wanted else None

        await change_reassignment(self._tree, topic, change)
        return idle

    async def cancel(self, topic: str) -> list[MovedPartition]:
        """End a reassignment: partitions that are not done yet get the replicas back that they had. Return those."""
        entry = self.entry(topic)
        back: dict[int, tuple[int, ...]] = {}

        def change(former: Reassignment | None) -> Reassignment | None:
            back.clear()
            if former is None or former.uuid != entry.uuid:
                return former
            # Also where nothing seems to have changed: this broker may not know of the controller's last step yet.
            pending = self._pending(topic, entry, former)
            back.update((number, former.before.get(number, entry.partitions[number])) for number in pending)
            return Reassignment(entry.uuid, dict(back), before=dict(back)) if back else None

        await change_reassignment(self._tree, topic, change)
        return [MovedPartition(number, entry.partitions[number], replicas) for number, replicas in sorted(back.items())]

    def _is_done(self, topic: str, entry: TopicEntry, number: int, wanted: tuple[int, ...]) -> bool:
        known = self._replication.states.get(topic, number)
        in_sync = () if known is None else known.state.in_sync
        return entry.partitions[number] == wanted and set(wanted) <= set(in_sync)

    async def _under_way(self, topic: str, entry: TopicEntry) -> Reassignment | None:
        found = (await read_reassignments(self._tree)).get(topic)
        return found if found is not None and found.uuid == entry.uuid else None

    async def elect(
        self, topic: str, uuid: str, partitions: Mapping[int, int], unclean: bool, withdraw: bool = False
    ) -> tuple[int, ...]:
        """Ask for elections, or withdraw those that are not held yet; return the partitions. Raises UnknownTopic.

        ``partitions`` (none: all) has the broker that is to lead each or ANY_LEADER.
        """
        entry = self.entry(topic, uuid)
        unknown = [number for number in partitions if number not in entry.partitions]
        if unknown:
            raise InvalidRequest(f"there is no partition {unknown[0]}; the topic has {len(entry.partitions)}")
        if not entry.replicated:
            raise InvalidRequest(f"topic {topic!r} has one replica of each partition: nobody else can lead them")
        if withdraw:
            return await withdraw_election(self._tree, topic, entry.uuid, tuple(partitions))
        leaders = {number: leader for number, leader in partitions.items() if leader >= 0}
        numbers = tuple(sorted(partitions or entry.partitions))
        await request_election(self._tree, topic, entry.uuid, numbers, unclean=unclean, leaders=leaders)
        return numbers

    def state(self, topic: str, number: int) -> PartitionState | None:
        """Return the state of a partition as last seen, None if none is known."""
        known = self._replication.states.get(topic, number)
        return None if known is None else known.state

    def elected(
        self, entry: TopicEntry, number: int, state: PartitionState, draining: Iterable[int], unclean: bool
    ) -> PartitionState | None:
        """Return the state that an election would lead to now, None if it would change nothing."""
        replicas, live = entry.partitions[number], self._live()
        if unclean:
            return elect_unclean(state, replicas, live)
        return prefer(state, replicas, live, tuple(draining))

    async def drain(self, broker: int, draining: bool) -> bool:
        """Let a broker lead nothing, or let it lead again; return whether that is a change.

        Raises InvalidRequest for a broker that is not live and has no replicas: most likely another one is meant.
        """
        live = {*self._live(), self._me}
        if draining and broker not in live and not self._has_replicas(broker):
            raise InvalidRequest(f"there is no broker {broker}; live are {', '.join(map(str, sorted(live)))}")
        return await set_draining(self._tree, broker, draining)

    def _has_replicas(self, broker: int) -> bool:
        entries = map(self._topics.get, self._topics.names())
        return any(broker in each for entry in entries if entry is not None for each in entry.partitions.values())

    async def draining(self) -> tuple[int, ...]:
        """Return the brokers that are to lead nothing."""
        return tuple(sorted(await read_draining(self._tree)))

    async def pending(self) -> dict[str, dict[int, PendingReplicas]]:
        """Return the partitions whose reassignments are not done, by topic and number."""
        found: dict[str, dict[int, PendingReplicas]] = {}
        for topic, asked in sorted((await read_reassignments(self._tree)).items()):
            entry = self._topics.get(topic)
            if entry is None or entry.uuid != asked.uuid:
                continue
            for number, wanted in sorted(self._pending(topic, entry, asked).items()):
                now = entry.partitions[number]
                found.setdefault(topic, {})[number] = PendingReplicas(now, wanted, asked.before.get(number, now))
        return found

    async def survey(self, topic: str) -> dict[int, Iterable[DescribedReplica]]:
        """Return what each live broker that answers says of its logs of a topic. Raises UnknownTopic."""
        entry = self.entry(topic)
        found: dict[int, Iterable[DescribedReplica]] = {}

        async def ask(broker: int) -> None:
            try:
                if broker == self._me:
                    found[broker] = await self.describe(topic)
                    return
                connection = await self._links.open(broker)
                try:
                    answering = with_timeout(self._clock, ANSWER_SECONDS, connection.request(DescribeReplicas(topic)))
                    answer: DescribeReplicasResponse = await answering
                finally:
                    connection.abort()
            except (LogdError, CoordinationError, defer.TimeoutError) as error:
                _log.info("broker {broker} tells nothing of {topic}: {error}", broker=broker, topic=topic, error=error)
                return
            if not answer.error and answer.uuid == entry.uuid:
                found[broker] = answer.replicas

        await for_each(self._live(), ask, ASKED_AT_ONCE)
        return found

    async def describe(self, topic: str) -> list[DescribedReplica]:
        """Return each partition of a topic as this broker has it. Raises UnknownTopic."""
        entry = self.entry(topic)
        under_way = await self._under_way(topic, entry)
        wanted = {} if under_way is None else under_way.partitions
        recorded: dict[int, int] = {}
        for ends in (await read_all_ends(self._tree, entry.uuid)).values():
            for number, end in ends.ends.items():
                recorded[number] = max(recorded.get(number, -1), end)
        return [
            self._describe(topic, number, recorded.get(number, -1), wanted.get(number, ()))
            for number in sorted(entry.partitions)
        ]

    def _describe(self, topic: str, number: int, recorded: int, wanted: tuple[int, ...]) -> DescribedReplica:
        log, state = self._replication.store.log(topic, number), self.state(topic, number)
        last = () if state is None else state.last
        if log is None:
            return DescribedReplica(number, NO_LOG, recorded_end=recorded, wanted=wanted, last=last)
        replica = self._replication.replica(topic, number)
        role = None if replica is None else replica.role
        history = None if replica is None else replica.history
        kind, epoch = NO_ROLE, -1
        followers: tuple[FollowerEnd, ...] = ()
        if isinstance(role, LeaderRole):
            kind, epoch = LEADS, role.epoch
            followers = tuple(FollowerEnd(each, found.flushed) for each, found in sorted(role.followers.items()))
        elif isinstance(role, FollowerRole):
            kind, epoch = FOLLOWS, role.epoch
        return DescribedReplica(
            number,
            OFFLINE if log.offline is not None else kind,
            epoch,
            log.start,
            log.visible_end,
            log.flushed_end,
            log.end,
            -1 if history is None else history.before(log.end),
            recorded,
            wanted,
            followers,
            last,
        )


def _moved(
    entry: TopicEntry, wanted: Mapping[int, Sequence[int]], pending: Collection[int] = ()
) -> list[MovedPartition]:
    """Return the partitions that change, and of the ``pending`` ones those that stay as well: they are not done."""
    return [
        MovedPartition(number, tuple(entry.partitions[number]), tuple(replicas))
        for number, replicas in sorted(wanted.items())
        if number in entry.partitions and (number in pending or tuple(entry.partitions[number]) != tuple(replicas))
    ]
