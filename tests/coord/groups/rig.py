"""A tree in process on a clock that stands still, and members of groups in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord import paths
from logd.coord.groups.membership import GroupMembership
from logd.coord.groups.records import Timing
from logd.coord.registries.consumers import Subscription
from logd.coord.registries.topics import encode_entry
from logd.coord.tree.no_journal import NoJournal
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import TreeHost
from logd.testing.inprocess.client import InProcessCoordination
from logd.topic import TopicEntry, TopicPartition
from tests.coord.groups.doubles import RecordingReader

T = TypeVar("T")

SESSION_TIMEOUT = 6.0


class Member:
    """One consumer: its client of the tree, its reader, its membership."""

    def __init__(self, case: GroupTestCase, name: str, group: str = "g", **timing: float) -> None:
        self.name = name
        self.coordination = InProcessCoordination(case.host, case.clock, SESSION_TIMEOUT, 2.0)
        self.reader = RecordingReader()
        self.membership = GroupMembership(
            self.coordination, case.clock, group, name, self.reader, lambda: 0.5, Timing(**timing)
        )
        case.members.append(self)

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that its reader delivers, sorted."""
        return sorted(self.reader.streams)

    @property
    def numbers(self) -> list[int]:
        """The numbers of the partitions that its reader delivers."""
        return [where.partition for where in self.partitions]

    def cut(self) -> None:
        """Cut it off from the tree, without an end of its session."""
        self.coordination.link.reachable = False
        self.coordination.link.cut()

    def mend(self) -> None:
        """Let it reach the tree again."""
        self.coordination.link.reachable = True


class GroupTestCase(SynchronousTestCase):
    """A tree with a broker and a topic ``t`` of eight partitions."""

    def setUp(self) -> None:
        """Host the tree, and look into it with a client that is no member."""
        self.clock = Clock()
        self.members: list[Member] = []
        self.tree = Tree()
        self.host = TreeHost(self.tree, NoJournal(), self.clock, lambda count: b"p" * count)
        self.host.start()
        self.outsider = InProcessCoordination(self.host, self.clock)
        self.get(self.outsider.connect())
        self.broker(0)
        self.topic("t", 8)

    def get(self, waiting: Deferred[T]) -> T:
        """Return the result of a Deferred, letting time pass."""
        for _ in range(300):
            if waiting.called:
                break
            self.clock.advance(0.01)
        return self.successResultOf(waiting)

    def run_for(self, seconds: float) -> None:
        """Let time pass in small steps."""
        for _ in range(round(seconds / 0.01)):
            self.clock.advance(0.01)

    def broker(self, number: int) -> None:
        """Register a broker."""
        self.get(self.outsider.create(paths.broker(number), b"{}", ephemeral=True, makepath=True))

    def topic(self, name: str, partitions: int, brokers: Sequence[int] = (0,), uuid: str = "") -> None:
        """Make a topic, whose partitions are on each of the brokers."""
        entry = TopicEntry(uuid or f"uuid-{name}", {number: tuple(brokers) for number in range(partitions)})
        self.get(self.outsider.create(paths.topic(name), encode_entry(entry), makepath=True))

    def join(self, name: str, subscription: Subscription | None = None, group: str = "g", **timing: float) -> Member:
        """Let a member join; time does not pass yet."""
        member = Member(self, name, group, **timing)
        member.coordination.connect()
        member.membership.subscribe(subscription or Subscription({"t": 1}))
        return member

    def joined(self, *names: str, **more: Any) -> list[Member]:
        """Return members that have joined and settled."""
        members = [self.join(name, **more) for name in names]
        self.settle()
        return members

    def settle(self, seconds: float = 3.0) -> None:
        """Let the group come to rest, and check that it did."""
        self.run_for(seconds)
        self.check()

    def check(self, group: str = "g", topic: str = "t", partitions: int = 8) -> None:
        """Check that each partition has one owner, which delivers it, and that the tree agrees with the members."""
        told: dict[TopicPartition, str] = {}
        for member in self.members:
            if member.membership.group == group:
                for where, stream in member.reader.streams.items():
                    if where.topic == topic:
                        self.assertNotIn(where, told, "delivered twice")
                        told[where] = stream
        self.assertEqual(told, self.owners(group, topic))
        self.assertEqual(sorted(where.partition for where in told), list(range(partitions)) if told else [])

    def owners(self, group: str = "g", topic: str = "t") -> dict[TopicPartition, str]:
        """Return the owners that the tree has."""
        parent = paths.group_owners(group, topic)
        if self.get(self.outsider.exists(parent)) is None:
            return {}
        names = self.get(self.outsider.get_children(parent))
        return {
            TopicPartition(topic, int(name)): self.get(self.outsider.get(f"{parent}/{name}"))[0].decode()
            for name in names
        }

    def committed(self, partition: int, group: str = "g", topic: str = "t") -> bytes:
        """Return the stored position of a partition."""
        return self.get(self.outsider.get(paths.group_offset(group, topic, partition)))[0]

    def store(self, path: str, data: bytes) -> None:
        """Write a node from outside the group."""
        self.get(self.outsider.set(path, data))


def tp(partition: int, topic: str = "t") -> TopicPartition:
    """Return a partition of the topic."""
    return TopicPartition(topic, partition)
