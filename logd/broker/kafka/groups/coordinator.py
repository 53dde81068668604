"""The groups that this broker coordinates: claims them in the tree when members join, and gives them back when empty.

Nothing of a group is kept but its claim's node, its generation and its positions. When the session with the tree ends,
or the broker, the members are told so (NOT_COORDINATOR), find the next coordinator, and join there anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from uuid import uuid4

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from logd.broker.kafka.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    ILLEGAL_GENERATION,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER_ID,
)
from logd.broker.kafka.groups.claim_releases import ClaimReleases
from logd.broker.kafka.groups.group import KafkaGroup
from logd.broker.kafka.groups.group_rights import GroupRefused, check_name, refusals
from logd.broker.kafka.groups.limits import GroupLimits, MemberMemory
from logd.broker.kafka.groups.members import JoinAnswer, JoinRequest, SyncAnswer
from logd.broker.topics.named_locks import NamedLocks
from logd.config.kafka import KafkaSettings
from logd.coord import paths
from logd.coord.errors import CoordinationError
from logd.coord.groups.liveness import PATIENCE
from logd.coord.interfaces import ICoordination
from logd.coord.kafka_coordinator import read_coordinator
from logd.coord.kafka_groups.claim import (
    ClaimLost,
    CoordinatedElsewhere,
    GroupClaim,
    NativeMembers,
)
from logd.coord.kafka_groups.commit_operations import Commits
from logd.coord.kafka_groups.positions import KafkaPositions
from logd.coord.records import SessionState
from logd.deferreds.background import Background
from logd.deferreds.fair_turns import FairTurns, RestingWorks
from logd.deferreds.locking import QueueLock
from logd.interfaces import Clock
from logd.topic import TopicPartition

#: Positions that are deleted while commits wait.
_FORGOTTEN_TOGETHER = 10


#: A context in which a function is called if the connection of a request is lost.
OnLost = Callable[[Callable[[], None]], AbstractContextManager[None]]


@define(eq=False)
class HeldGroup:
    """A group that this broker has claimed."""

    group: KafkaGroup
    claim: GroupClaim
    positions: KafkaPositions
    #: Held by each write to the tree, so that commits are stored in the order in which they came.
    lock: QueueLock = field(factory=QueueLock, init=False)


class GroupCoordinator:
    """The groups of Kafka clients that one broker coordinates. For the reactor's thread alone."""

    _log = Logger()

    def __init__(
        self,
        coordination: ICoordination,
        clock: Clock,
        broker_id: int,
        settings: KafkaSettings,
        resting: RestingWorks,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        """``resting``: the works of all clients. ``new_id()`` returns an id that nobody else has."""
        self.coordination = coordination
        self.broker_id = broker_id
        self._clock = clock
        self._resting = resting
        self._new_id = new_id
        self._most = settings.kafka_groups_max
        self.limits = GroupLimits.of(settings)
        self.memory = MemberMemory(settings.kafka_groups_bytes)
        self._held: dict[str, HeldGroup] = {}
        self._locks = NamedLocks()
        self._background = Background("the groups of Kafka clients")
        self._stopped = False
        self._releases = ClaimReleases(coordination, clock, resting, self._locks, lambda name: name in self._held)
        self._unsubscribe = coordination.subscribe(self._session_is)

    @property
    def groups(self) -> Mapping[str, HeldGroup]:
        """The groups that this broker coordinates, by name."""
        return self._held

    def check(self, name: str) -> None:
        """Raise GroupRefused if the name is not allowed, or the tree cannot be asked now."""
        check_name(name)
        if not self._in_touch:
            raise GroupRefused(COORDINATOR_NOT_AVAILABLE, "the coordination tree does not answer this broker")

    async def find(self, name: str) -> int | None:
        """Return the broker that coordinates a group; None if no broker does. Raises GroupRefused."""
        self.check(name)
        if name in self._held:
            return self.broker_id
        with refusals():
            broker = await read_coordinator(self.coordination, name)
        if broker == -1:
            self._log.error(
                "group {group} cannot be used by Kafka's clients: its node {path} names no broker; remove that node "
                "with a ZooKeeper client",
                group=name, path=paths.group_coordinator(name),
            )  # fmt: skip
            raise GroupRefused(COORDINATOR_NOT_AVAILABLE, "the group's coordinator cannot be read from the tree")
        return broker

    async def held(self, name: str) -> HeldGroup | None:
        """Return a group that this broker coordinates; None if no broker does.

        Raises GroupRefused, also if another one does.
        """
        broker = await self.find(name)
        found = self._held.get(name)
        if found is None and broker is not None and broker != self.broker_id:
            raise GroupRefused(NOT_COORDINATOR, f"broker {broker} coordinates group {name!r}")
        return found

    async def member_of(self, name: str) -> KafkaGroup:
        """Return the group of a member. Raises GroupRefused, also if the group has no members."""
        found = await self.held(name)
        if found is None:
            raise GroupRefused(UNKNOWN_MEMBER_ID, f"group {name!r} has no members")
        return found.group

    async def join(self, name: str, asked: JoinRequest, lost: OnLost) -> JoinAnswer:
        """Let a member join, and return the answer once there is one. Raises GroupRefused.

        ``lost(call)`` is a context in which ``call()`` is called if the connection of the request is lost.
        """
        if asked.member_id and name not in self._held:
            await self.member_of(name)
        held = await self._hold(name)
        group = held.group
        answer: Deferred[JoinAnswer] = Deferred()
        group.join(asked, answer.callback)
        with lost(lambda: group.not_awaited(answer.callback)):
            return await answer

    async def sync(
        self,
        name: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        assignments: Mapping[str, bytes],
        lost: OnLost,
    ) -> SyncAnswer:
        """Return a member's assignment, once there is one. See ``join``."""
        group = await self.member_of(name)
        answer: Deferred[SyncAnswer] = Deferred()
        group.sync(member_id, instance_id, generation, assignments, answer.callback)
        del assignments  # the leader's are with the members now, and those of others are not used
        with lost(lambda: group.not_awaited(answer.callback)):
            return await answer

    async def commit(
        self, name: str, commits: Commits, member_id: str, instance_id: str | None, generation: int
    ) -> int:
        """Store positions; return an error, 0 for none. Raises GroupRefused."""
        held = await self.held(name)
        with refusals():
            if held is None:
                if generation >= 0:
                    return ILLEGAL_GENERATION
                return await self._commit_alone(name, commits)
            group = held.group
            error = group.check_commit(member_id, instance_id, generation)
            if error:
                return error
            began = group.generation
            async with held.lock:
                if group.generation != began:  # others read the positions where they begin
                    return ILLEGAL_GENERATION
                try:
                    await held.positions.store(commits, held.claim)
                except ClaimLost as lost:
                    self._give_up(held, str(lost))
                    return NOT_COORDINATOR
        return 0

    async def positions(self, name: str) -> KafkaPositions:
        """Return the positions of a group, to be read as they are now or later. Raises GroupRefused."""
        held = await self.held(name)
        if held is not None:
            async with held.lock:  # behind the commits that came before
                return held.positions
        with refusals():
            await self.coordination.sync()
        return KafkaPositions(self.coordination, name)

    async def forget(
        self, name: str, places: Sequence[TopicPartition], read: Callable[[KafkaGroup], Awaitable[Collection[str]]]
    ) -> set[TopicPartition]:
        """Delete positions of a group, some at a time: commits and generations come in between. Raises GroupRefused.

        Positions in topics that ``read(group)`` returns stay; it is called for each generation, which may read others.
        Returns the partitions whose positions were deleted.
        """
        gone: set[TopicPartition] = set()
        left, begin = places, 0
        seen: tuple[KafkaGroup | None, int] = None, 0
        while begin < len(left):
            held = await self.held(name)
            now = (None, 0) if held is None else (held.group, held.group.generation)
            if held is not None and now != seen:
                kept = await read(held.group)
                left, begin = [each for each in left[begin:] if each.topic not in kept], 0
            seen, some = now, left[begin : begin + _FORGOTTEN_TOGETHER]
            with refusals():
                async with self._locks.hold(name) if held is None else held.lock:
                    if self._held.get(name) is not held:
                        continue
                    if held is None:
                        await KafkaPositions(self.coordination, name).forget(some)
                    elif held.group.generation == seen[1]:
                        await held.positions.forget(some, held.claim)
                    else:
                        continue
            gone.update(some)
            begin += _FORGOTTEN_TOGETHER
        return gone

    async def released(self, name: str) -> None:
        """Wait until a group that has become empty is given back to the tree."""
        if name not in self._held:
            async with self._locks.hold(name):
                pass

    def stop(self) -> None:
        """Give up all groups, so that the next coordinators can claim them at once."""
        self._stopped = True
        self._unsubscribe()
        for held in tuple(self._held.values()):
            self._give_up(held, "it is stopping")

    # Calls of the groups

    def write_generation(self, group: KafkaGroup, generation: int) -> None:
        """See GroupOwner."""
        held = self._held.get(group.name)
        if held is not None and held.group is group:
            self._background.start(self._write_generation(held, generation))

    def answer(self, answers: Sequence[Callable[[], None]]) -> None:
        """See GroupOwner."""
        if answers:
            self._background.start(self._answer(answers))

    def later(self, work: Callable[[], None]) -> None:
        """See GroupOwner."""
        turn = self._resting.rest()
        turn.addCallback(lambda _: work())
        turn.addErrback(lambda failure: self._log.failure("a bug in the groups of Kafka clients", failure))

    def emptied(self, group: KafkaGroup) -> None:
        """See GroupOwner."""
        held = self._held.get(group.name)
        if held is not None and held.group is group:
            del self._held[group.name]
            self._releases.begin(group.name, held.claim)

    async def _commit_alone(self, name: str, commits: Commits) -> int:
        """Store positions for a client that is no member, while the group has no members."""
        positions = KafkaPositions(self.coordination, name)
        try:
            async with self._locks.hold(name):
                try:
                    await positions.store_alone(commits)
                except CoordinatedElsewhere as error:
                    if error.broker != self.broker_id or name in self._held:
                        raise
                    claim = await self._claim(name)  # an earlier process has left one
                    try:
                        await claim.release()
                    except CoordinationError:
                        self._releases.begin(name, claim)
                        raise
                    await positions.store_alone(commits)
        except NativeMembers:
            return UNKNOWN_MEMBER_ID  # as while the group has members among Kafka's clients
        return 0

    async def _hold(self, name: str) -> HeldGroup:
        """Return a group, claimed if it was not. Raises GroupRefused."""
        while True:
            held = self._held.get(name)
            if held is not None:
                return held
            async with self._locks.hold(name):
                self.check(name)
                if name in self._held:
                    continue
                if len(self._held) >= self._most:
                    self._log.warn(
                        "group {group} is refused: this broker coordinates {most} groups, as many as "
                        "kafka.groups.max allows",
                        group=name, most=self._most,
                    )  # fmt: skip
                    raise GroupRefused(COORDINATOR_NOT_AVAILABLE, "this broker coordinates too many groups")
                with refusals():
                    claim = await self._claim(name)
                group = KafkaGroup(name, self._clock, self.limits, self.memory, self, self._new_id, claim.generation)
                held = HeldGroup(group, claim, KafkaPositions(self.coordination, name))
                self._held[name] = held
                return held

    async def _claim(self, name: str) -> GroupClaim:
        claim = GroupClaim(self.coordination, name, self.broker_id, self._clock)
        try:
            await claim.take()
        except CoordinationError as error:
            if not isinstance(error, CoordinatedElsewhere | NativeMembers):  # it may be there all the same
                self._releases.begin(name, claim)
            raise
        return claim

    async def _answer(self, answers: Sequence[Callable[[], None]]) -> None:
        """Give answers in turns: each is encoded and sent, some 0.1 ms, and a group may have thousands of members."""
        turns = FairTurns(self._clock, self._resting)
        for give in answers:
            if turns.over and not self._stopped:
                await turns.rest()
            give()

    async def _write_generation(self, held: HeldGroup, generation: int) -> None:
        async with held.lock:
            try:
                await held.claim.write_generation(generation)
            except CancelledError:
                raise
            except CoordinationError as error:
                self._give_up(held, str(error))
                return
            if self._held.get(held.group.name) is held:  # not given up meanwhile
                held.group.generation_written(generation)  # before the commits that wait: they are of the former one

    def _give_up(self, held: HeldGroup, reason: str) -> None:
        name = held.group.name
        if self._held.get(name) is held:
            del self._held[name]
            self._log_given_up(name, reason)
            self._releases.begin(name, held.claim)
        held.group.give_up()

    async def _give_up_all(self, given_up: Sequence[HeldGroup]) -> None:
        """Tell the members of groups in turns that these are coordinated here no longer."""
        turns = FairTurns(self._clock, self._resting)
        for held in given_up:
            if turns.over and not self._stopped:
                await turns.rest()
            self._log_given_up(held.group.name, "the session with the coordination tree has ended")
            held.group.give_up()

    def _log_given_up(self, name: str, reason: str) -> None:
        self._log.info(
            "this broker no longer coordinates group {group}, whose members join anew: {reason}",
            group=name, reason=reason,
        )  # fmt: skip

    # The session

    @property
    def _in_touch(self) -> bool:
        """True while no other broker can have claimed our groups."""
        coordination = self.coordination
        if self._stopped or coordination.state not in (SessionState.CONNECTED, SessionState.SUSPENDED):
            return False
        silent: float = self._clock.seconds() - coordination.last_contact
        patience: float = PATIENCE * coordination.session_timeout
        return silent < patience

    def _session_is(self, state: SessionState) -> None:
        if state in (SessionState.LOST, SessionState.CLOSED):
            # From now on none of them answers. To tell their members takes turns; the claims ended with the session.
            given_up, self._held = tuple(self._held.values()), {}
            self._releases.forget()
            self._background.start(self._give_up_all(given_up))
        elif state is SessionState.CONNECTED:
            self._releases.go_on()
