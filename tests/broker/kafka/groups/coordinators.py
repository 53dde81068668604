"""Two brokers over one tree in memory, and members of groups that they coordinate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.kafka.groups.coordinator import GroupCoordinator
from logd.broker.kafka.groups.group_rights import GroupRefused
from logd.broker.kafka.groups.members import JoinAnswer
from logd.config.kafka import KafkaSettings
from logd.coord import paths
from logd.coord.kafka_groups.commit_operations import Committed
from logd.coord.registries.topics import encode_entry
from logd.coord.tree.no_journal import NoJournal
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import TreeHost
from logd.deferreds.fair_turns import RestingWorks
from logd.testing.inprocess.client import InProcessCoordination
from logd.topic import TopicEntry, TopicPartition
from tests.broker.kafka.groups.states import ASKED

SESSION = 6.0
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@contextmanager
def never_lost(call: Callable[[], None]) -> Iterator[None]:
    """The connection of a request, which is not lost."""
    yield


@define(eq=False)
class SingleMember:
    """The only member of a group, at one coordinator."""

    broker: GroupCoordinator
    answer: JoinAnswer = field(factory=JoinAnswer)

    @property
    def me(self) -> tuple[str, None, int]:
        """The member's id, name and generation."""
        return self.answer.member_id, None, self.answer.generation


class CoordinatorsTestCase(SynchronousTestCase):
    """Two brokers, and the tree, on one clock."""

    settings: Any = KafkaSettings()

    def setUp(self) -> None:
        """Host the tree, with a topic of two partitions."""
        self.clock = Clock()
        self.host = TreeHost(Tree(), NoJournal(), self.clock, lambda count: b"p" * count)
        self.host.start()
        self.outsider = self.tree_client()
        self.topic()
        self.trees = [self.tree_client() for _ in range(2)]
        self.brokers = [
            GroupCoordinator(
                tree,
                self.clock,
                number,
                self.settings,
                RestingWorks(self.clock),
                iter(f"{number}-{n}" for n in range(1000)).__next__,
            )
            for number, tree in enumerate(self.trees)
        ]

    def topic(self) -> None:
        """Make the topic."""
        entry = TopicEntry("uuid", {0: (0,), 1: (0,)})
        self.get(self.outsider.create(paths.topic("t"), encode_entry(entry), makepath=True))

    def tree_client(self) -> InProcessCoordination:
        """Return a client of the tree with a session."""
        client = InProcessCoordination(self.host, self.clock, SESSION, 2.0)
        self.get(client.connect())
        return client

    def run_for(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds / 0.05)):
            self.clock.advance(0.05)

    def get(self, waiting: Any) -> Any:
        """Return the result of a Deferred or a coroutine, letting time pass."""
        doing = waiting if isinstance(waiting, Deferred) else Deferred.fromCoroutine(waiting)
        for _ in range(400):
            if doing.called:
                break
            self.clock.advance(0.05)
        return self.successResultOf(doing)

    def refusal(self, waiting: Any) -> int:
        """Return the code with which a request is refused."""
        doing = Deferred.fromCoroutine(waiting)
        outcome: list[Any] = []
        doing.addBoth(outcome.append)
        for _ in range(400):
            if outcome:
                break
            self.clock.advance(0.05)
        refused: GroupRefused = outcome[0].value
        self.assertIsInstance(refused, GroupRefused)
        return refused.code

    def join(self, broker: int = 0, name: str = "g") -> SingleMember:
        """Return a group's only member, with its assignment."""
        member = SingleMember(self.brokers[broker])
        member.answer = self.get(member.broker.join(name, ASKED, never_lost))
        self.assertEqual(member.answer.error, 0)
        self.get(member.broker.sync(name, *member.me, {}, never_lost))
        return member

    def commit(self, member: SingleMember, position: int, text: str = "") -> Deferred[int]:
        """Begin to commit a position of partition 0."""
        commits = {T0: Committed(position, text)}
        return Deferred.fromCoroutine(member.broker.commit("g", commits, *member.me))

    def stored(self, where: TopicPartition = T0) -> bytes | None:
        """Return the position in the tree."""
        path = paths.group_offset("g", *where)
        return None if self.get(self.outsider.exists(path)) is None else self.get(self.outsider.get(path))[0]

    def cut(self, broker: int) -> None:
        """Cut a broker off from the tree."""
        self.trees[broker].link.reachable = False
        self.trees[broker].link.cut()

    def mend(self, broker: int) -> None:
        """Let a broker reach the tree again."""
        self.trees[broker].link.reachable = True
