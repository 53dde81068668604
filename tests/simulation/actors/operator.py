"""An operator outside the groups, who changes the tree by a client of his own while their members live."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from logd.coord import paths
from logd.coord.errors import ClientClosing, CoordinationError, OperationTimeout
from logd.coord.groups.claims import Claims
from logd.coord.groups.group_changes import GroupChanged, move_positions
from logd.coord.records import SessionState
from logd.coord.registries.offsets import OffsetRegistry
from logd.coord.registries.owners import OwnerRegistry
from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.memory.clocks import ProcessClock
from logd.testing.memory.tree import MemoryTree
from logd.topic import TopicPartition
from tests.simulation.actors.overseer import Overseer
from tests.simulation.ledger import Ledger
from tests.simulation.violation import Violation
from tests.simulation.world import World

_FOR_EVER = 24 * 60 * 60.0
#: Attempts of a move whose group changes in between.
_ATTEMPTS = 5
#: Values of a position's node that are no positions.
NO_POSITIONS = (b"9" * 30, b"-1", b"12 ", b"[]", b"\xff")
#: Seconds until every member has heard of his change and has begun to act.
_HEARD = 3.0


@define(eq=False)
class Operator:
    """An operator whose works are begun by ``move``, ``take``, ``remove_entry``, ``spoil`` and ``write``."""

    world: World
    ledger: Ledger
    tree: MemoryTree
    overseer: Overseer
    host: str = "operator"
    random: Random = field(init=False)
    clock: ProcessClock | None = field(default=None, init=False)
    coordination: InProcessCoordination | None = field(default=None, init=False)
    #: Works that have begun and not ended yet.
    under_way: int = field(default=0, init=False)
    #: True when he only finishes works that have begun.
    over: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random(self.host)

    def start(self) -> None:
        """Begin a life."""
        self.clock = ProcessClock(self.world.clock)
        self.coordination = tree = self.tree.client(self.clock, 6.0, 5.0)
        tree.subscribe(self._session_is)
        tree.connect(_FOR_EVER).addErrback(lambda failure: failure.trap(ClientClosing, OperationTimeout))

    def kill(self) -> None:
        """End at once."""
        if self.clock is not None and self.coordination is not None:
            self.clock.kill()
            self.world.network.graveyard.append((self.clock, self.coordination))
            self.clock = None
            self.tree.forget(self.coordination)

    @property
    def connected(self) -> bool:
        """True when he can begin a work."""
        return self.coordination is not None and self.coordination.state is SessionState.CONNECTED

    def move(self, group: str, places: Sequence[TopicPartition]) -> None:
        """Move positions of a group, each to one where the group has been before."""
        self._begin(self._move(group, places))

    def take(self, group: str, places: Sequence[TopicPartition]) -> None:
        """Remove the owners of ``places``, claim them as a consumer does, and release them after a while."""
        self._begin(self._take(group, places))

    def remove_entry(self, group: str, consumer: str) -> None:
        """Remove a consumer from its group's registry, though it lives."""
        self._begin(self._remove_entry(group, consumer))

    def spoil(self, group: str, where: TopicPartition) -> None:
        """Overwrite a partition's position by a value that is none, and repair it after a while."""
        self._begin(self._spoil(group, where))

    def write(self, path: str, value: bytes) -> None:
        """Make a node unless it exists."""
        self._begin(self._write(path, value))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self.under_way += 1
        Deferred.fromCoroutine(self._work(work)).addErrback(self._failed)

    async def _work(self, work: Coroutine[Any, Any, None]) -> None:
        assert self.clock is not None
        await work
        await deferLater(self.clock, _HEARD)
        self.under_way -= 1

    def _failed(self, failure: Failure) -> None:
        raise Violation(f"{self.host}: {failure.value!r}") from failure.value

    async def _move(self, group: str, places: Sequence[TopicPartition]) -> None:
        tree = self.coordination
        assert tree is not None
        registry = OffsetRegistry(tree, group)
        positions = {
            where: self.random.choice([0, *self.ledger.progress(group, *where).boundaries]) for where in places
        }
        self.world.trace.note(self.host, "moves", (group, positions))
        with suppress(CoordinationError):
            for _ in range(_ATTEMPTS):
                seen = {where: await registry.read(where) for where in places}
                with suppress(GroupChanged):
                    return await move_positions(tree, group, seen, positions)

    async def _spoil(self, group: str, where: TopicPartition) -> None:
        tree = self.coordination
        assert tree is not None
        registry = OffsetRegistry(tree, group)
        try:
            await tree.set(registry.path(where), self.random.choice(NO_POSITIONS))
        except CoordinationError:
            pass  # it may have been written all the same
        else:
            await self._sleep(12.0)
        while True:
            position = self.random.choice([0, *self.ledger.progress(group, *where).boundaries])
            try:
                seen = await registry.read(where)
                if seen is None or seen.problem is None:
                    return
                await move_positions(tree, group, {where: seen}, {where: position})
            except (CoordinationError, GroupChanged):
                await self._sleep(1.0)

    async def _write(self, path: str, value: bytes) -> None:
        tree = self.coordination
        assert tree is not None
        with suppress(CoordinationError):
            await tree.create(path, value, makepath=True)

    async def _remove_entry(self, group: str, consumer: str) -> None:
        tree = self.coordination
        assert tree is not None
        with suppress(CoordinationError):
            await tree.delete(paths.group_consumer(group, consumer))

    async def _take(self, group: str, places: Sequence[TopicPartition]) -> None:
        tree = self.coordination
        assert tree is not None
        owners = OwnerRegistry(tree, group)
        holdings = Claims(tree, owners, OffsetRegistry(tree, group))
        for attempt in range(_ATTEMPTS):
            if self.over and attempt:
                break
            for where in places:
                with suppress(CoordinationError):
                    await tree.delete(owners.path(where))
            await self._sleep(self.random.choice([0.0, 0.3, 2.0]))
            with suppress(CoordinationError):
                await holdings.claim(dict.fromkeys(places, f"{self.host}-0"))
                await self._sleep(4.0)
                break
        while True:
            try:
                await holdings.release()
                await tree.set(paths.group(group), b"")  # nothing else would tell the members that they lost something
            except CoordinationError:
                await self._sleep(1.0)
            else:
                return

    async def _sleep(self, longest: float) -> None:
        assert self.clock is not None
        await deferLater(self.clock, longest * self.random.random())

    def _session_is(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED and self.coordination is not None:
            self.overseer.operators.add(self.coordination.session_id)
