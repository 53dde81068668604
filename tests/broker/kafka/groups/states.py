"""A group on a clock, without a broker, and what a test needs to play its members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, evolve, field
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.kafka.groups.group import KafkaGroup
from logd.broker.kafka.groups.limits import GroupLimits, MemberMemory
from logd.broker.kafka.groups.members import GroupProtocol, JoinAnswer, JoinRequest, SyncAnswer

ASKED = JoinRequest("", None, 10.0, 60.0, "consumer", (GroupProtocol("range", b"mine"),), "client")
LIMITS = GroupLimits(initial_delay=3.0, session_min=1.0, session_max=100.0, members=5)


@define(eq=False)
class Owner:
    """The coordinator of a group, as a test plays it: generations are written at once, or when the test says so."""

    at_once: bool = True
    writing: list[int] = field(factory=list)
    emptied_times: int = 0

    def write_generation(self, group: KafkaGroup, generation: int) -> None:
        """See GroupOwner."""
        if self.at_once:
            group.generation_written(generation)
        else:
            self.writing.append(generation)

    def answer(self, answers: Sequence[Callable[[], None]]) -> None:
        """See GroupOwner."""
        for give in answers:
            give()

    def later(self, work: Callable[[], None]) -> None:
        """See GroupOwner."""
        work()

    def emptied(self, group: KafkaGroup) -> None:
        """See GroupOwner."""
        self.emptied_times += 1


@define(eq=False)
class Player:
    """The client of one member."""

    group: KafkaGroup
    asked: JoinRequest
    joins: list[JoinAnswer] = field(factory=list)
    syncs: list[SyncAnswer] = field(factory=list)
    #: The number of its requests to join.
    asked_times: int = 0

    @property
    def id(self) -> str:
        """The id that the group has given to it."""
        return self.asked.member_id

    @property
    def is_answered(self) -> bool:
        """True if no request to join waits."""
        return len(self.joins) == self.asked_times

    @property
    def answer(self) -> JoinAnswer:
        """The last answer to a request to join."""
        return self.joins[-1]

    def join(self, **more: Any) -> None:
        """Ask to join, with the id that it was given before."""
        self.asked = evolve(self.asked, **more)
        self.asked_times += 1
        self.group.join(self.asked, self._joined)

    def sync(self, assignments: dict[str, bytes] | None = None) -> None:
        """Ask for the assignment."""
        self.group.sync(self.id, self.asked.instance_id, self.answer.generation, assignments or {}, self.syncs.append)

    def heartbeat(self) -> int:
        """Send a heartbeat."""
        return self.group.heartbeat(self.id, self.asked.instance_id, self.answer.generation)

    def leave(self) -> int:
        """Leave."""
        return self.group.leave(self.id, self.asked.instance_id)

    def commit(self) -> int:
        """Ask whether it may commit."""
        return self.group.check_commit(self.id, self.asked.instance_id, self.answer.generation)

    def lose_join(self) -> None:
        """Lose the connection that waits for the answer to a request to join."""
        self.group.not_awaited(self._joined)

    def _joined(self, answer: JoinAnswer) -> None:
        self.joins.append(answer)
        if answer.member_id:
            self.asked = evolve(self.asked, member_id=answer.member_id)


class GroupStateTestCase(SynchronousTestCase):
    """An empty group for each test."""

    memory_limit = 1 << 20

    def setUp(self) -> None:
        """Make the group."""
        self.clock = Clock()
        self.owner = Owner()
        self.memory = MemberMemory(self.memory_limit)
        numbers = iter(range(1_000_000))
        self.group = KafkaGroup(
            "g", self.clock, LIMITS, self.memory, self.owner, lambda: f"{next(numbers)}", generation=6
        )

    def tearDown(self) -> None:
        """Give the group up: nothing of it may be left."""
        self.group.give_up()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.memory.used, 0)

    def player(self, **more: Any) -> Player:
        """Return a client that has not joined."""
        return Player(self.group, evolve(ASKED, **more))

    def players(self, *more: dict[str, Any]) -> list[Player]:
        """Return clients that have joined together, and have their assignments: each that of its place."""
        players = [self.player(**each) for each in more]
        for player in players:
            player.join()
        self.begin()
        self.share(players)
        return players

    def begin(self) -> None:
        """Let the delay of a new group pass, also if members have joined meanwhile."""
        self.clock.advance(3.0)
        self.clock.advance(3.0)

    def share(self, players: list[Player]) -> None:
        """Let the members of a generation have their assignments."""
        for player in players:
            self.assertEqual(player.answer.error, 0)
            leads = player.id == player.answer.leader
            player.sync({each.id: b"%d" % place for place, each in enumerate(players)} if leads else None)
        self.assertEqual(
            [player.syncs[-1] for player in players], [SyncAnswer(0, b"%d" % n) for n in range(len(players))]
        )
