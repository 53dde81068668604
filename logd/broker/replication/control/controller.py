"""The controller: the one broker that chooses the leaders of replicated partitions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import define, evolve, field
from twisted.logger import Logger

from logd.broker.replication.control.operator_work import ControllerEpoch, OperatorWork
from logd.broker.topics.directory import TopicDirectory
from logd.checkedjson import decimal
from logd.coord import paths
from logd.coord.elections import elect
from logd.coord.errors import BadVersion, CoordinationError, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.partition_state import PartitionState
from logd.coord.records import EventType, Operation, SessionState, SetData
from logd.coord.registries.brokers import read_brokers
from logd.coord.registries.operator_requests import read_draining
from logd.coord.registries.partition_states import KnownState, PartitionStates, Place, StateChange
from logd.coord.registries.topics import check_identity, make_identity
from logd.deferreds.background import Background
from logd.deferreds.gathering import for_each
from logd.deferreds.sleeping import sleep
from logd.interfaces import Clock, Timer
from logd.leadership import NO_LEADER
from logd.topic import TopicEntry

if TYPE_CHECKING:
    from logd.broker.replication.control.leader_moves import LeaderMoves

#: Seconds before a failed attempt is repeated.
RETRY_SECONDS = 1.0
#: Seconds before the live brokers are compared with the tree again.
LOOK_SECONDS = 0.1
#: Seconds between two looks for leaders that are not the preferred ones.
BALANCE_SECONDS = 1.0
#: The most states that one transaction changes.
BATCH = 200
#: The transactions that are under way at a time: each checks by itself all that it replaces.
AT_ONCE = 5
#: The most partitions that are looked at in one turn of the reactor: some 20 milliseconds.
LOOKED_AT_ONCE = 500
#: With more changes in one transaction the log has a line for all of them, and the new leaders one for each.
MOST_LINES = 20


@define(eq=False)
class Controller:
    """Holds ``/controller`` if it can, and changes the states of partitions while it does. Owner thread only.

    Several brokers run one each. Every change is made in a transaction that checks the version of
    ``/controller_epoch``, which each new controller raises: so a former controller that does not know yet that
    another one has come changes nothing.
    """

    _log = Logger()

    _tree: ICoordination
    _clock: Clock
    _me: int
    _instance: Callable[[], str]
    _topics: TopicDirectory
    _states: PartitionStates
    #: Returns the instance of each live broker.
    _live: Callable[[], Mapping[int, str]]
    #: Returns a topic's min.insync.replicas.
    _least: Callable[[TopicEntry], int]
    _operators: OperatorWork
    #: Seconds for which the preferred leader has to be in sync before it leads again; None: never.
    _balance: float | None
    #: The epoch as a controller, None while another broker is the controller, or nobody is known to be.
    epoch: int | None = field(default=None, init=False)
    _fence: ControllerEpoch = field(default=ControllerEpoch(0, -1), init=False)
    #: True once the live brokers as last seen were found to be those in the tree, in this epoch.
    _sees_brokers: bool = field(default=False, init=False)
    _dirty: set[Place] = field(factory=set, init=False)
    _all_dirty: bool = field(default=False, init=False)
    _working: bool = field(default=False, init=False)
    #: None until a replicated partition was seen in this epoch.
    _moves: LeaderMoves | None = field(default=None, init=False)
    _background: Background = field(factory=lambda: Background("choosing leaders"), init=False)
    _unsubscribe: Callable[[], None] | None = field(default=None, init=False)
    _timer: Timer | None = field(default=None, init=False)

    def start(self) -> None:
        """Become the controller as soon as that is possible."""
        self._unsubscribe = self._tree.subscribe(self._session_changed)
        if self._tree.state is SessionState.CONNECTED:
            self._background.start(self._run())

    def stop(self) -> None:
        """Change nothing any more. Another broker can be the controller at once, without the end of this session."""
        if self.epoch is not None:
            self._tree.delete(paths.CONTROLLER).addErrback(lambda _: None)  # it ends with the session at the latest
        self.epoch = None
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._background.stop()

    def look(self) -> None:
        """Look at all partitions again: brokers have come or gone."""
        self._all_dirty = True
        self._work()

    def look_at_topic(self, topic: str, entry: TopicEntry) -> None:
        """Look at a topic again, which has changed."""
        if self.epoch is not None:
            self._dirty.update((topic, number) for number in entry.partitions)
            self._work()

    def look_at(self, topic: str, partition: int) -> None:
        """Look at one partition again, as its state has changed."""
        if self.epoch is not None:
            self._dirty.add((topic, partition))
            self._work()

    # Election of the controller

    def _session_changed(self, state: SessionState) -> None:
        self.epoch = None
        self._background.stop()
        self._working = False
        if state is SessionState.CONNECTED:
            self._background.start(self._run())

    async def _run(self) -> None:
        while True:
            try:
                if await self._claim():
                    await self._raise_epoch()
                    self._log.info("broker {id} is the controller in epoch {epoch}", id=self._me, epoch=self.epoch)
                    self._moves = None
                    self._balance_later()
                    self.look()
                watched, watch = self._tree.exists_and_watch(paths.CONTROLLER)
                stat = await watched
                if stat is not None and (stat.ephemeral_owner == self._tree.session_id) == (self.epoch is not None):
                    event = await watch
                    if event.type is EventType.SESSION:
                        return
                else:
                    watch.addErrback(lambda _: None)  # nobody waits for it
                    watch.cancel()
                    await sleep(self._clock, 0.0)
            except CoordinationError as error:
                self._log.debug("the controller cannot be chosen now: {error}", error=str(error))
                await sleep(self._clock, RETRY_SECONDS)
            self.epoch = None

    async def _claim(self) -> bool:
        """Return whether this broker's session holds ``/controller``."""
        data = json.dumps({"broker": self._me, "instance": self._instance()}).encode()
        try:
            await self._tree.create(paths.CONTROLLER, data, ephemeral=True)
        except NodeExists:
            stat = await self._tree.exists(paths.CONTROLLER)
            return stat is not None and stat.ephemeral_owner == self._tree.session_id
        return True

    async def _raise_epoch(self) -> None:
        while True:
            try:
                data, stat = await self._tree.get(paths.CONTROLLER_EPOCH)
            except NoNode:
                with suppress(NodeExists):
                    await self._tree.create(paths.CONTROLLER_EPOCH, b"0")
                continue
            try:
                former = decimal(data.decode("ascii", "replace"))
            except ValueError:
                former = stat.version  # the version alone fences; the number is for people
            try:
                written = await self._tree.set(paths.CONTROLLER_EPOCH, b"%d" % (former + 1), stat.version)
            except BadVersion:
                continue
            self._fence, self.epoch = ControllerEpoch(former + 1, written.version), former + 1
            self._sees_brokers = False
            return

    # Changes

    def _work(self) -> None:
        if self.epoch is not None and not self._working:
            self._working = True
            self._background.start(self._work_off())

    async def _work_off(self) -> None:
        try:
            while self.epoch is not None and (self._dirty or self._all_dirty):
                places = self._places()
                await self._read_draining()
                changes = await self._elections(places)
                if changes and not await self._look_at_brokers():
                    changes, self._all_dirty = [], True
                    await sleep(self._clock, LOOK_SECONDS)
                elif changes:
                    changes = await self._elections([each.place for each in changes])
                await self._write(changes)
        finally:
            self._working = False

    def _places(self) -> list[Place]:
        places, everything = self._dirty, self._all_dirty
        self._dirty, self._all_dirty = set(), False
        return self._all_places() if everything else sorted(places)

    def _all_places(self) -> list[Place]:
        return [
            (topic, number)
            for topic in self._topics.names()
            if (entry := self._topics.get(topic)) is not None and entry.replicated
            for number in sorted(entry.partitions)
        ]

    async def _read_draining(self) -> None:
        with suppress(CoordinationError):
            self._operators.draining = await read_draining(self._tree)

    async def _look_at_brokers(self) -> bool:
        """Return whether the live brokers as last seen are those in the tree.

        They are not for a moment after a session began: then all leaders would seem to be dead.
        """
        if not self._sees_brokers:
            try:
                found = await read_brokers(self._tree)
            except CoordinationError:
                return False
            self._sees_brokers = {number: info.instance for number, info in found.items()} == dict(self._live())
        return self._sees_brokers

    async def _elections(self, places: Sequence[Place]) -> list[StateChange]:
        """Return the changes that are needed now, after some turns of the reactor if there are many partitions."""
        found: list[StateChange] = []
        for start in range(0, len(places), LOOKED_AT_ONCE):
            if start:
                await sleep(self._clock, 0.0)
            some = places[start : start + LOOKED_AT_ONCE]
            found += [change for place in some if (change := self._elected(place)) is not None]
        return found

    def _elected(self, place: Place) -> StateChange | None:
        if (found := self._found(place)) is None:
            return None
        entry, known = found
        replicas, live = entry.partitions[place[1]], self._live()
        self._planned().saw(place, entry, known)
        state = elect(known.state, replicas, live, self._least(entry), self._operators.draining)
        return None if state is None else StateChange(place, known, state)

    def _found(self, place: Place) -> tuple[TopicEntry, KnownState] | None:
        """Return the topic and the state of a partition; None if it has none, as far as this broker knows."""
        entry, known = self._topics.get(place[0]), self._states.get(*place)
        if entry is None or known is None or not entry.replicated or place[1] not in entry.partitions:
            return None
        return None if known.uuid != entry.uuid else (entry, known)  # else the topic was deleted, and made again

    async def _write(self, changes: list[StateChange]) -> None:
        """Write states. One that cannot be written is looked at again later, and keeps no other one waiting."""

        async def write(batch: list[StateChange]) -> None:
            if self.epoch is None:
                return
            try:
                await self._write_together(batch)
            except CoordinationError:
                await self._write_each(batch)  # one of them may have changed, or its topic may be gone

        await for_each([changes[start : start + BATCH] for start in range(0, len(changes), BATCH)], write, AT_ONCE)

    async def _write_each(self, batch: list[StateChange]) -> None:
        for each in batch:
            if self.epoch is None:
                return
            try:
                await self._write_together([each])
            except (BadVersion, NoNode):
                await self._check_epoch()  # its watch brings the state that is there
                await self._make_identity(each)
            except CoordinationError as error:
                self._log.debug("the leader of {place} cannot be written: {error}", place=each.place, error=error)
                self._clock.callLater(RETRY_SECONDS, self.look_at, *each.place)

    async def _make_identity(self, change: StateChange) -> None:
        """Look at a partition again if it is one of a topic that an earlier version has created."""
        with suppress(CoordinationError):
            if await make_identity(self._tree, change.place[0], change.known.uuid):
                self.look_at(*change.place)

    async def _write_together(self, batch: list[StateChange]) -> None:
        epoch = self.epoch or 0
        states = [evolve(each.state, controller_epoch=epoch) for each in batch]
        operations: list[Operation] = [self._fence.check()]
        operations += [check_identity(*each) for each in sorted({(each.place[0], each.known.uuid) for each in batch})]
        for each, state in zip(batch, states, strict=True):
            operations.append(SetData(paths.partition_state(*each.place), state.encode(), each.known.version))
        await self._tree.multi(operations)
        for each, state in zip(batch, states, strict=True):
            self._states.took(*each.place, KnownState(state, each.known.version + 1, each.known.uuid))
            self._states.changed(*each.place)
        self._log_leaders(
            {
                each.place: state
                for each, state in zip(batch, states, strict=True)
                if state.leader != each.known.state.leader
            }
        )

    def _log_leaders(self, led: Mapping[Place, PartitionState]) -> None:
        if len(led) > MOST_LINES:
            counts = sorted(Counter(state.leader for state in led.values()).items())
            leaders = {"none" if leader == NO_LEADER else leader: count for leader, count in counts}
            text = "{count} partitions have other leaders; broker: partitions are {leaders}"
            self._log.info(text, count=len(led), leaders=leaders)
            return
        for (topic, partition), state in led.items():
            if state.leader == NO_LEADER:
                self._log.warn(
                    "{topic}-{partition} has no leader, since no in-sync replica is live; in sync are {in_sync}",
                    topic=topic,
                    partition=partition,
                    in_sync=list(state.in_sync),
                )
                continue
            self._log.info(
                "{topic}-{partition} is led by broker {leader} in epoch {epoch}; in sync are {in_sync}",
                topic=topic,
                partition=partition,
                leader=state.leader,
                epoch=state.leader_epoch,
                in_sync=list(state.in_sync),
            )

    async def _check_epoch(self) -> None:
        """Stop being the controller if another broker is."""
        try:
            _, stat = await self._tree.get(paths.CONTROLLER_EPOCH)
        except CoordinationError:
            return
        if stat.version != self._fence.version:
            self.epoch = None

    # Planned moves

    def _balance_later(self) -> None:
        if self._timer is None and self.epoch is not None:
            self._timer = self._clock.callLater(BALANCE_SECONDS, self._balance_now)

    def _balance_now(self) -> None:
        self._timer = None
        if self.epoch is not None:
            self._background.start(self._balance_once())

    async def _balance_once(self) -> None:
        try:
            await self._move_leaders()
        finally:
            self._balance_later()

    async def _move_leaders(self) -> None:
        """Do what operators ask; let leaders hand over to preferred ones that have been in sync long enough."""
        try:
            present = frozenset(await self._tree.get_children(paths.BROKERS))
            self._operators.draining = await read_draining(self._tree) if "draining" in present else frozenset()
            if self.epoch is not None:
                await self._operators.look(self._fence, present)
        except CoordinationError:
            return
        if self._moves is None:
            return
        changes = await self._moves.due(self._all_places, self._live(), self._operators.draining)
        if changes and self.epoch is not None and await self._look_at_brokers():
            await self._write(changes)

    def _planned(self) -> LeaderMoves:
        if self._moves is None:
            from logd.broker.replication.control.leader_moves import LeaderMoves  # most have no replicated topics

            self._moves = LeaderMoves(self._clock, self._balance, self._found)
        return self._moves
