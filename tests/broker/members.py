"""Put several brokers together in memory over one coordination tree, without connections."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.assembly import BrokerAssembly
from logd.broker.broker import Broker
from logd.broker.registration import BrokerRegistration
from logd.broker.shutdown import StopReport
from logd.config import BrokerSettings
from logd.coord.tree.no_journal import NoJournal
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import SessionLimits, TreeHost
from logd.log.store.log_store import LogStore
from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.memory.clocks import ProcessClock
from logd.testing.memory.files import MemoryFiles
from logd.topic import TopicEntry
from tests.broker.resources import TestedTree, tested_resources
from tests.broker.rig import DEAD
from tests.log.threads import Threads

#: Seconds until a session of a test's tree is over.
SESSION = 4.0


@define(eq=False)
class Member:
    """One broker; ``start`` it again after ``stop`` or ``kill``, over the same disk."""

    id: int
    clock: Clock
    host: TreeHost
    files: MemoryFiles
    port: int = 6667
    options: dict[str, Any] = field(factory=dict)
    threads: Threads = field(factory=Threads)
    #: True while its disk answers nothing.
    hung: bool = field(default=False, init=False)
    process: ProcessClock = field(init=False)
    access: TestedTree = field(init=False)
    assembly: BrokerAssembly = field(init=False)
    broker: Broker = field(init=False)
    store: LogStore = field(init=False)
    membership: BrokerRegistration = field(init=False)

    @property
    def client(self) -> InProcessCoordination:
        """The client of the tree."""
        return self.access.client

    def start(self) -> None:
        """Open what is on the disk, and reach for the tree."""
        settings = BrokerSettings(data="/data", id=self.id, **self.options)
        self.process = ProcessClock(self.clock)
        self.access = TestedTree(lambda: InProcessCoordination(self.host, self.process, SESSION))
        address = f"broker{self.id}.example", self.port
        self.assembly = BrokerAssembly(
            settings, tested_resources(self.process, self.files, self.threads, self.threads, self.access, address)
        )
        self.broker = self.assembly.open()
        assert self.assembly.membership is not None
        self.store, self.membership = self.broker.store, self.assembly.membership
        self.assembly.join()

    def partitions(self, topic: str) -> list[int]:
        """Return the partitions of a topic that have a log on this broker."""
        return sorted(log.partition for log in self.store.logs() if log.topic == topic)

    def stop(self) -> Deferred[StopReport]:
        """Stop in order; the store is closed."""
        return self.assembly.stop()

    def kill(self) -> None:
        """End the process without a stop; its session lasts until its time is over."""
        self.process.kill()
        self.access.cut()
        DEAD.append(self.assembly)
        self.threads = Threads()
        self.files.restart(power_lost=False)


class MembersTestCase(SynchronousTestCase):
    """A tree, and one broker for each call of ``member``."""

    def setUp(self) -> None:
        """Start an empty tree, and a client that reads it."""
        self.clock = Clock()
        self.clock.advance(1_600_000_000)
        self.host = TreeHost(Tree(), NoJournal(), self.clock, bytes, SessionLimits(1000, 60_000))
        self.host.start()
        self.members: list[Member] = []
        self.reader = InProcessCoordination(self.host, self.clock, 60.0)
        self.reader.connect()
        self.settle()

    def member(self, number: int, **options: Any) -> Member:
        """Start a broker over an empty disk."""
        member = Member(number, self.clock, self.host, MemoryFiles(now=self.clock.seconds), 7000 + number, options)
        self.members.append(member)
        member.start()
        self.settle()
        return member

    def settle(self) -> None:
        """Let everything happen that does not wait for time."""
        for _ in range(10_000):
            busy = False
            if any(call.getTime() <= self.clock.seconds() for call in self.clock.getDelayedCalls()):
                self.clock.advance(0)
                busy = True
            for member in self.members:
                if not member.hung and (member.threads.works or member.threads.outcomes):
                    member.threads.settle()
                    busy = True
            if not busy:
                return
        self.fail("the brokers never come to rest")

    def pass_time(self, seconds: float) -> None:
        """Let time pass in small steps."""
        for _ in range(int(seconds / 0.1)):
            self.clock.advance(0.1)
            self.settle()

    def outcome(self, doing: Deferred[Any]) -> Any:
        """Return the result, once everything has happened."""
        self.settle()
        return self.successResultOf(doing)

    def error(self, doing: Deferred[Any]) -> BaseException:
        """Return the error, once everything has happened."""
        self.settle()
        error = self.failureResultOf(doing).value
        assert isinstance(error, BaseException)
        return error

    def create(self, member: Member, topic: str, partitions: int) -> TopicEntry:
        """Let one of the brokers make a topic."""
        entry = self.outcome(member.broker.administration.create(topic, partitions, {}))
        assert isinstance(entry, TopicEntry)
        return entry

    def nodes(self, path: str) -> list[str]:
        """Return the children of a node of the tree, sorted."""
        return sorted(self.outcome(self.reader.get_children(path)))
