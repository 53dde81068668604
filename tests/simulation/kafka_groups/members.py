"""A member of a group, as Kafka's clients are: joins, shares out if it leads, reads where it goes on, and commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred

from logd.broker.kafka.error_codes import (
    FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION,
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from logd.broker.kafka.groups.group_rights import GroupRefused, refusals
from logd.broker.kafka.groups.members import GroupProtocol, JoinAnswer, JoinRequest, SyncAnswer
from logd.broker.kafka.groups.membership_requests import likely_coordinator
from logd.coord.kafka_groups.commit_operations import Committed
from logd.testing.memory.clocks import ProcessClock
from logd.topic import TopicPartition
from tests.simulation.kafka_groups.brokers import GroupBroker
from tests.simulation.kafka_groups.calls import Calls, Lost
from tests.simulation.kafka_groups.ledger import GroupLedger, Place, Writer
from tests.simulation.world import World

TOPIC = "t"
#: Seconds: of a member's session, of a rebalance, between heartbeats, and for an answer.
SESSION, REBALANCE, BEAT, ANSWER = 3.0, 6.0, 0.7, 2.0
#: Messages between two commits, at most.
MOST_MESSAGES = 5


class Rejoin(Exception):
    """The generation is over."""


class NotHere(Exception):
    """The broker does not coordinate the group, or cannot now."""


class Fenced(Exception):
    """Another process is this static member now."""


@define(eq=False)
class Member:
    """The client of one member, in a process of its own for each life."""

    world: World
    calls: Calls
    ledger: GroupLedger
    brokers: Sequence[GroupBroker]
    group: str
    name: str
    partitions: int
    instance: str
    in_two_steps: bool
    random: Random = field(init=False)
    clock: ProcessClock | None = None
    #: The generation that it reads, and its partitions there; -1 while it reads nothing.
    generation: int = -1
    owned: tuple[TopicPartition, ...] = ()
    member_id: str = ""
    #: True once it begins no further life.
    is_retired: bool = False
    #: Commits of the present life that were acknowledged.
    committed: int = 0
    _lives: int = 0
    _broker: GroupBroker | None = None
    is_leaving: bool = False
    #: Its position in each partition.
    _positions_now: dict[TopicPartition, int] = field(factory=dict)
    #: The number of its last joining, among all.
    _joining: int = 0

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random(self.name)

    @property
    def process(self) -> str:
        """The name of this life."""
        return f"{self.name}.{self._lives}"

    def start(self) -> None:
        """Begin a life, if it has none."""
        if self.clock is None and not self.is_retired:
            self._lives += 1
            self.clock = ProcessClock(self.world.clock)
            self.member_id, self.generation, self.owned, self.committed = "", -1, (), 0
            self._broker, self.is_leaving = None, False
            self.world.network.graveyard.append(Deferred.fromCoroutine(self._live()).addErrback(self.calls.failed))

    def leave(self) -> None:
        """End the life in order, soon."""
        self.is_leaving = True

    def kill(self) -> None:
        """End the life at once."""
        if self.clock is not None:
            self.clock.kill()
            self.calls.lose(self.clock)
            self.world.network.graveyard.append(self.clock)
            self.clock, self.generation, self.owned = None, -1, ()

    async def _live(self) -> None:
        while not self.is_leaving:
            try:
                await self._take_part()
            except Lost:
                self._broker = None
                await self._sleep(0.2)
            except NotHere:
                self._broker = None
                await self._sleep(0.1)
            except Rejoin:
                self._commit_late()
            except Fenced:
                break
            self.generation, self.owned, self._positions_now = -1, (), {}
        else:
            self._commit_late()
            with suppress(Lost, NotHere, Rejoin, Fenced):
                await self._leave()
        self.kill()

    async def _leave(self) -> None:
        if self.member_id and self._broker is not None:
            me = self.member_id, self.instance or None

            async def leave(groups: Any, lost: Any) -> None:
                group = await groups.member_of(self.group)
                group.leave(*me)
                await groups.released(self.group)

            await self._ask(leave)

    async def _take_part(self) -> None:
        if self._broker is None:
            await self._find()
        answer = await self._join()
        assignment = await self._sync(answer)
        owned = tuple([TopicPartition(TOPIC, int(word)) for word in assignment.split()])
        for where in owned:
            self.ledger.owns(Place(self.group, where), answer.generation, self.process, self.instance)
        positions = await self._positions(owned)
        self.ledger.begins(self.group, self.instance, self.process, answer.generation, self._joining)
        self.generation, self.owned, self._positions_now = answer.generation, owned, positions
        self.world.trace.note(self.process, "reads", f"{answer.generation} {owned} {sorted(positions.items())}")
        while not self.is_leaving:
            await self._sleep(BEAT * self.random.random())
            await self._heartbeat()
            await self._commit(positions)

    async def _find(self) -> None:
        found = await self._ask(lambda groups, lost: groups.find(self.group), self.random.choice(self.brokers))
        if found is None:
            found = likely_coordinator(self.group, [each.number for each in self.brokers if each.clock is not None])
        self._broker = self.brokers[found]

    async def _join(self) -> JoinAnswer:
        while True:
            asked = JoinRequest(
                self.member_id, self.instance or None, SESSION, REBALANCE, "consumer",
                (GroupProtocol("range", b""),), self.name, in_two_steps=self.in_two_steps,
            )  # fmt: skip

            async def join(groups: Any, lost: Any) -> tuple[JoinAnswer, int]:
                return await groups.join(self.group, asked, lost), self.ledger.joined()  # noqa: B023  # called at once

            answer: JoinAnswer
            answer, joining = await self._ask(join, timeout=REBALANCE + 5)
            if answer.error == 0:
                self.member_id, self._joining = answer.member_id, joining
                return answer
            if answer.error == MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            elif answer.error == UNKNOWN_MEMBER_ID:
                self.member_id = ""
            else:
                self._check(answer.error)
            if self.is_leaving:
                raise Rejoin

    async def _sync(self, joined: JoinAnswer) -> bytes:
        shares: dict[str, bytes] = {}
        if joined.leader == self.member_id and joined.members:
            names = sorted(each.member_id for each in joined.members)
            for number in range(self.partitions):
                name = names[number % len(names)]
                shares[name] = shares.get(name, b"") + b" %d" % number
        me = self.member_id, self.instance or None, joined.generation
        answer: SyncAnswer = await self._ask(lambda groups, lost: groups.sync(self.group, *me, shares, lost))
        self._check(answer.error)
        return answer.assignment

    async def _positions(self, owned: tuple[TopicPartition, ...]) -> dict[TopicPartition, int]:
        marks = {where: self.ledger.mark(Place(self.group, where)) for where in owned}

        async def read(groups: Any, lost: Any) -> Mapping[TopicPartition, Committed | None]:
            positions = await groups.positions(self.group)
            with refusals():
                found: Mapping[TopicPartition, Committed | None] = await positions.read(owned)
            return found

        found = await self._ask(read)
        positions = {}
        for where in owned:
            position = None if found[where] is None else found[where].position
            self.ledger.read(Place(self.group, where), marks[where], position)
            positions[where] = 0 if position is None else position
        return positions

    async def _heartbeat(self) -> None:
        me = self.member_id, self.instance or None, self.generation

        async def beat(groups: Any, lost: Any) -> int:
            error: int = (await groups.member_of(self.group)).heartbeat(*me)
            return error

        self._check(await self._ask(beat))

    async def _commit(self, positions: dict[TopicPartition, int]) -> None:
        """Handle some messages of some partitions, and commit that."""
        chosen = [where for where in positions if self.random.random() < 0.7]
        back = self.random.random() < 0.05
        for where in chosen:
            some = self.random.randrange(MOST_MESSAGES + 1)
            positions[where] = max(positions[where] - some, 0) if back else positions[where] + some
        if not chosen:
            return
        writer = Writer(self.process, self.generation, self.instance, back)
        commits = {where: Committed(positions[where], writer.encode()) for where in chosen}
        me = self.member_id, self.instance or None, self.generation
        error = await self._ask(lambda groups, lost: groups.commit(self.group, commits, *me))
        self.world.trace.note(self.process, "commits", f"{self.generation} {sorted(positions.items())} {error}")
        if error == 0:
            self.committed += 1
            for where, commit in commits.items():
                self.ledger.acknowledged(Place(self.group, where), commit.position, writer)
        self._check(error)

    def _commit_late(self) -> None:
        """Commit once more where it was, without waiting for that, as clients do that commit from time to time."""
        positions, generation, broker = self._positions_now, self.generation, self._broker
        if self.clock is None or not positions or broker is None or not self.member_id:
            return
        writer = Writer(self.process, generation, self.instance)
        commits = {where: Committed(position, writer.encode()) for where, position in positions.items()}
        me = self.member_id, self.instance or None, generation

        async def commit() -> None:
            with suppress(Lost, NotHere, Rejoin, Fenced):
                await self._ask(lambda groups, lost: groups.commit(self.group, commits, *me), broker)

        def begin() -> None:
            self.world.network.graveyard.append(Deferred.fromCoroutine(commit()).addErrback(self.calls.failed))

        for _ in range(3):
            self.clock.callLater(self.random.choice([0.02, 0.1, 0.6]) * self.random.random(), begin)

    async def _ask(self, work: Any, broker: GroupBroker | None = None, timeout: float = ANSWER) -> Any:
        assert self.clock is not None
        broker = broker or self._broker
        assert broker is not None
        answer = await self.calls.ask(self.clock, broker.reached, work, timeout)
        if isinstance(answer, GroupRefused):
            self._check(answer.code)
        return answer

    def _check(self, error: int) -> None:
        """Raise what follows from an error; nothing for 0."""
        if error == FENCED_INSTANCE_ID:
            raise Fenced
        if error == UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if error in (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS):
            raise Rejoin
        if error:
            raise NotHere

    async def _sleep(self, seconds: float) -> None:
        assert self.clock is not None
        waiting: Deferred[None] = Deferred()
        self.clock.callLater(seconds, waiting.callback, None)
        await waiting


def twin_of(member: Member, name: str) -> Member:
    """Return another process that takes itself for the same static member."""
    return evolve(member, name=name, clock=None, generation=-1, owned=(), member_id="", committed=0)
