"""The controller: the one broker that chooses the leaders of replicated partitions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Protocol

from attrs import define, evolve, field, frozen
from twisted.logger import Logger

from logd.checkedjson import decimal
from logd.coord import paths
from logd.coord.elections import elect, elect_unclean, prefer
from logd.coord.errors import BadVersion, CoordinationError, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.partition_state import PartitionState
from logd.coord.records import Check, Delete, EventType, Operation, SessionState, SetData
from logd.coord.registries.partition_states import KnownState, PartitionStates
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.interfaces import Clock, Timer
from logd.topic import TopicEntry

#: Seconds before a failed attempt is repeated.
RETRY_SECONDS = 1.0
#: Seconds between two looks for leaders that are not the preferred ones.
BALANCE_SECONDS = 1.0
#: The most states that one transaction changes, and the most leaders that move back at a time.
BATCH = 200
MOST_MOVES = 50

Place = tuple[str, int]


class Topics(Protocol):
    """What the controller asks about topics; TopicDirectory answers."""

    def names(self) -> list[str]: ...

    def get(self, topic: str) -> TopicEntry | None: ...


@frozen
class _Change:
    """A state that is to be written."""

    place: Place
    known: KnownState
    state: PartitionState


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
    _topics: Topics
    _states: PartitionStates
    #: Returns the instance of each live broker.
    _live: Callable[[], Mapping[int, str]]
    #: Returns a topic's min.insync.replicas.
    _least: Callable[[TopicEntry], int]
    #: Seconds for which the preferred leader has to be in sync before it leads again; None: never.
    _balance: float | None
    #: The epoch as a controller, None while another broker is the controller, or nobody is known to be.
    epoch: int | None = field(default=None, init=False)
    #: Brokers that are to lead nothing.
    draining: frozenset[int] = field(default=frozenset(), init=False)
    _epoch_version: int = field(default=-1, init=False)
    _dirty: set[Place] = field(factory=set, init=False)
    _all_dirty: bool = field(default=False, init=False)
    _working: bool = field(default=False, init=False)
    #: When each partition whose preferred leader could lead was first seen so.
    _movable: dict[Place, float] = field(factory=dict, init=False)
    _background: Background = field(factory=lambda: Background("choosing leaders"), init=False)
    _unsubscribe: Callable[[], None] | None = field(default=None, init=False)
    _timer: Timer | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)

    def start(self) -> None:
        """Become the controller as soon as that is possible."""
        self._unsubscribe = self._tree.subscribe(self._session_changed)
        if self._tree.state is SessionState.CONNECTED:
            self._background.start(self._run())

    def stop(self) -> None:
        """Change nothing any more. The node ends with the session."""
        self._stopped = True
        self.epoch = None
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._background.stop()

    def look(self) -> None:
        """Look at all partitions again: brokers have come or gone, or topics have changed."""
        self._all_dirty = True
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
        if state is SessionState.CONNECTED and not self._stopped:
            self._background.start(self._run())

    async def _run(self) -> None:
        while True:
            try:
                if await self._claim():
                    await self._raise_epoch()
                    self._log.info("broker {id} is the controller in epoch {epoch}", id=self._me, epoch=self.epoch)
                    self._movable.clear()
                    self._balance_later()
                    self.look()
                watched, watch = self._tree.exists_and_watch(paths.CONTROLLER)
                stat = await watched
                if stat is not None and (stat.ephemeral_owner == self._tree.session_id) == (self.epoch is not None):
                    event = await watch
                    if event.type is EventType.SESSION:
                        return
                else:
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
            self._epoch_version, self.epoch = written.version, former + 1
            return

    # Changes

    def _work(self) -> None:
        if self.epoch is not None and not self._working and not self._stopped:
            self._working = True
            self._background.start(self._work_off())

    async def _work_off(self) -> None:
        try:
            while self.epoch is not None and (self._dirty or self._all_dirty):
                places = self._places()
                await self._ask_for_help()
                changes = [change for place in places if (change := self._elected(place)) is not None]
                if not await self._write(changes):
                    await sleep(self._clock, RETRY_SECONDS)
        finally:
            self._working = False

    def _places(self) -> Iterable[Place]:
        places, everything = self._dirty, self._all_dirty
        self._dirty, self._all_dirty = set(), False
        if not everything:
            return sorted(places)
        return [
            (topic, number)
            for topic in self._topics.names()
            if (entry := self._topics.get(topic)) is not None and entry.replicated
            for number in sorted(entry.partitions)
        ]

    async def _ask_for_help(self) -> None:
        """Read which brokers are to lead nothing."""
        try:
            names = await self._tree.get_children(paths.DRAINING)
            self.draining = frozenset(decimal(name) for name in names)
        except (NoNode, ValueError):
            self.draining = frozenset()
        except CoordinationError:
            pass

    def _elected(self, place: Place) -> _Change | None:
        entry, known = self._topics.get(place[0]), self._states.get(*place)
        if entry is None or known is None or not entry.replicated or place[1] not in entry.partitions:
            return None
        replicas, live = entry.partitions[place[1]], self._live()
        state = elect(known.state, replicas, live, self._least(entry), self.draining)
        return None if state is None else _Change(place, known, state)

    async def _write(self, changes: list[_Change]) -> bool:
        """Write states; return False if something has to be tried again later."""
        whole = True
        for start in range(0, len(changes), BATCH):
            batch = changes[start : start + BATCH]
            try:
                await self._write_together(batch)
            except CoordinationError:
                for each in batch:  # one of them may have changed, or its topic may be gone
                    try:
                        await self._write_together([each])
                    except (BadVersion, NoNode):
                        await self._check_epoch()  # its watch brings the state that is there
                    except CoordinationError as error:
                        self._log.debug(
                            "the leader of {place} cannot be written: {error}", place=each.place, error=error
                        )
                        self._dirty.add(each.place)
                        whole = False
            if self.epoch is None:
                return False
        return whole

    async def _write_together(self, batch: list[_Change]) -> None:
        epoch = self.epoch or 0
        states = [evolve(each.state, controller_epoch=epoch) for each in batch]
        operations: list[Operation] = [Check(paths.CONTROLLER_EPOCH, self._epoch_version)]
        for each, state in zip(batch, states, strict=True):
            operations.append(SetData(paths.partition_state(*each.place), state.encode(), each.known.version))
        await self._tree.multi(operations)
        for each, state in zip(batch, states, strict=True):
            self._states.took(*each.place, KnownState(state, each.known.version + 1))
            self._states.changed(*each.place)
            if state.leader != each.known.state.leader:
                self._log.info(
                    "{topic}-{partition} is led by broker {leader} in epoch {epoch}; in sync are {in_sync}",
                    topic=each.place[0],
                    partition=each.place[1],
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
        if stat.version != self._epoch_version:
            self.epoch = None

    # Preferred leaders

    def _balance_later(self) -> None:
        if self._timer is None and self.epoch is not None:
            self._timer = self._clock.callLater(BALANCE_SECONDS, self._balance_now)

    def _balance_now(self) -> None:
        self._timer = None
        if self.epoch is None:
            return
        self._background.start(self._move_leaders())
        self._balance_later()

    async def _move_leaders(self) -> None:
        """Let preferred leaders that have been in sync long enough lead, a few at a time; end unclean elections."""
        await self._elect_unclean()
        await self._ask_for_help()
        now, live = self._clock.seconds(), self._live()
        moves: list[_Change] = []
        movable: dict[Place, float] = {}
        for topic in self._topics.names():
            entry = self._topics.get(topic)
            if entry is None or not entry.replicated:
                continue
            for number, replicas in entry.partitions.items():
                known, place = self._states.get(topic, number), (topic, number)
                state = None if known is None else prefer(known.state, replicas, live, self.draining)
                if known is None or state is None:
                    continue
                since = movable[place] = self._movable.get(place, now)
                must = known.state.leader in self.draining
                waited = self._balance is not None and now - since >= self._balance
                if (must or waited) and len(moves) < MOST_MOVES:
                    moves.append(_Change(place, known, state))
        self._movable = movable
        if moves and self.epoch is not None:
            await self._write(moves)

    async def _elect_unclean(self) -> None:
        """Make the unclean elections that a person has asked for."""
        try:
            topics = await self._tree.get_children(paths.ELECTIONS)
        except CoordinationError:
            return
        for topic in topics:
            path = f"{paths.ELECTIONS}/{topic}"
            try:
                data, stat = await self._tree.get(path)
                numbers = [decimal(text) for text in data.decode("ascii", "replace").split(",")]
            except (CoordinationError, ValueError):
                continue
            entry, operations = self._topics.get(topic), [Check(paths.CONTROLLER_EPOCH, self._epoch_version)]
            changes: list[Operation] = [*operations, Delete(path, stat.version)]
            for number in numbers:
                known = self._states.get(topic, number)
                if entry is None or known is None or number not in entry.partitions:
                    continue
                state = elect_unclean(known.state, entry.partitions[number], self._live())
                if state is not None:
                    state = evolve(state, controller_epoch=self.epoch or 0)
                    changes.append(SetData(paths.partition_state(topic, number), state.encode(), known.version))
            try:
                await self._tree.multi(changes)
                self._log.warn("{topic}: an unclean election of partitions {numbers}", topic=topic, numbers=numbers)
            except CoordinationError as error:
                self._log.warn("the unclean election of {topic} failed: {error}", topic=topic, error=str(error))
