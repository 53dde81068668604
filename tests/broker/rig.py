"""Put a whole broker together in memory: requests go in and answers come out as bytes, and nothing runs on its own."""

from __future__ import annotations

from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from logd.broker.assembly import BrokerAssembly
from logd.broker.shutdown import StopReport
from logd.config import BrokerSettings, LogSettings
from logd.coord.tree.no_journal import NoJournal
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import TreeHost
from logd.log.partition import PartitionLog
from logd.net.server import Connection, ConnectionFactory
from logd.protocol.conversation.client import ClientConversation
from logd.protocol.requests.produce_ack import ProduceAck, ProducedPart, ProducePart
from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.memory.clocks import ProcessCall, ProcessClock
from logd.testing.memory.files import MemoryFiles
from tests.broker.resources import TestedTree, tested_resources
from tests.log.threads import Threads
from tests.net.doubles import PeerTransport

R = TypeVar("R")

#: Brokers that were killed, kept from the garbage collector: it would close their coroutines during another test.
DEAD: list[BrokerAssembly] = []


@implementer(ILogObserver)
@define(eq=False)
class Events:
    """An observer that keeps what was logged."""

    events: list[LogEvent] = field(factory=list)

    def __call__(self, event: LogEvent) -> None:
        """See ILogObserver."""
        self.events.append(event)

    def warnings(self, text: str) -> list[str]:
        """Return the warnings that contain ``text``."""
        return self._lines(LogLevel.warn, text)

    def infos(self, text: str) -> list[str]:
        """Return the events of level info that contain ``text``."""
        return self._lines(LogLevel.info, text)

    def criticals(self, text: str) -> list[str]:
        """Return the critical events that contain ``text``."""
        return self._lines(LogLevel.critical, text)

    def _lines(self, level: object, text: str) -> list[str]:
        lines = [formatEvent(event) for event in self.events if event["log_level"] is level]
        return [line for line in lines if text in line]


@define(eq=False)
class Peer:
    """One client: ``send`` puts requests on the wire, ``answers`` takes what has come back."""

    connection: Connection
    transport: PeerTransport
    conversation: ClientConversation = field(factory=lambda: ClientConversation(128 << 20))
    #: Bytes that are sent, and not yet read by the broker.
    inbox: bytearray = field(factory=bytearray)
    lost: bool = False

    def send(self, *requests: Any) -> None:
        """Send requests in one piece; the broker reads them unless it has paused reading."""
        self.send_bytes(b"".join(b"".join(self.conversation.send(request)) for request in requests))

    def send_bytes(self, data: bytes) -> None:
        """Send any bytes, also such as are no requests."""
        self.inbox += data
        self.pump()

    def pump(self) -> None:
        """Deliver what the broker is ready to read, and close the connection if the broker has asked for that."""
        while self.inbox and not self.lost and self.reading and not self.transport.disconnecting:
            data = bytes(self.inbox[: 256 << 10])
            del self.inbox[: 256 << 10]
            self.connection.dataReceived(data)
        if self.transport.disconnecting and not self.lost:
            self.lose()

    @property
    def reading(self) -> bool:
        """True while the broker reads from this connection."""
        return bool(self.transport.producerState == "producing")

    def received(self) -> bytes:
        """Take the bytes that have come back."""
        return self.transport.received()

    def answers(self) -> list[Any]:
        """Take the responses that have come back."""
        pairs = self.conversation.receive_data(self.received())
        if self.conversation.violation is not None:
            raise self.conversation.violation
        return [response for _, response in pairs]

    def answers_to(self, *requests: Any) -> list[Any]:
        """Take the responses that have come back, in the order of the requests that were sent, one for each."""
        responses = {id(request): response for request, response in self.conversation.receive_data(self.received())}
        return [responses[id(request)] for request in requests]

    def lose(self) -> None:
        """Lose the connection, for both sides."""
        self.lost = True
        if self.transport.producer is not None:
            self.transport.producer.stopProducing()
        self.connection.connectionLost(Failure(ConnectionError("lost")))


class BrokerTestCase(SynchronousTestCase):
    """A broker for each test; ``options`` are its settings."""

    options: dict[str, Any] = {}  # noqa: RUF012  # each class has its own
    log_options: dict[str, Any] = {}  # noqa: RUF012

    #: True if ``open`` goes on to ``join``.
    joins = True
    #: True while a broker is open: not stopped, and not killed.
    running = False

    def new_tree(self) -> None:
        """Make an empty coordination tree whose clock stands still, so that sessions live for ever."""
        self.tree_clock = Clock()
        self.tree = TreeHost(Tree(), NoJournal(), self.tree_clock, bytes)
        self.tree.start()

    def setUp(self) -> None:
        """Open a broker over an empty disk, with an empty tree."""
        self.new_tree()
        self.clock = Clock()
        self.clock.advance(1_600_000_000)
        self.files = MemoryFiles(now=self.clock.seconds)
        self.events = Events()
        globalLogPublisher.addObserver(self.events)
        self.addCleanup(globalLogPublisher.removeObserver, self.events)
        self.open()
        self.addCleanup(self.check_clean)

    def open(self) -> None:
        """Open a broker over the disk as it is now."""
        settings = BrokerSettings(data="/data", log=LogSettings(**self.log_options), **self.options)
        self.end_process()
        self.flushes, self.reads = Threads(), Threads()
        self.process = ProcessClock(self.clock)
        self.access = TestedTree(lambda: InProcessCoordination(self.tree, self.tree_clock))
        address = "broker.example", 6667
        #: The factory of each port, by its setting and place.
        self.ports: dict[tuple[str, int], ConnectionFactory] = {}
        threads = self.flushes, self.reads
        self.assembly = BrokerAssembly(
            settings, tested_resources(self.process, self.files, *threads, self.access, address, self.ports)
        )
        self.broker = self.assembly.open()
        assert self.assembly.membership is not None and self.assembly.factory is not None
        self.store, self.membership, self.factory = self.broker.store, self.assembly.membership, self.assembly.factory
        self.running = True
        self.peers: list[Peer] = []
        if self.joins:
            self.join()

    def join(self) -> None:
        """Reach the tree, and let the topics be compared with it."""
        self.assembly.join()
        # The registry does not learn of stored partitions: its write would leave a timer.
        self.membership.reconciler.on_change = lambda: None
        self.settle()
        self.assertTrue(self.broker.ready)
        self.housekeeping = set(self.process.getDelayedCalls())

    def timers(self) -> list[ProcessCall]:
        """Return the timers that the broker has set on behalf of its clients."""
        return [call for call in self.process.getDelayedCalls() if call not in self.housekeeping]

    def end_process(self) -> None:
        """Let the running broker, if there is one, die: it reaches the tree no more, and none of its timers fires."""
        if self.running:
            self.process.kill()
            self.access.cut()
            DEAD.append(self.assembly)
        self.running = False

    def leave(self) -> StopReport | None:
        """Stop the running broker, if there is one, in order."""
        if not self.running:
            return None
        self.running = False
        stopping = self.assembly.stop()
        self.settle()
        report: StopReport = self.successResultOf(stopping)
        return report

    def check_clean(self) -> None:
        """Check that nothing waits, and no file range is held, once all connections are gone. Runs after each test."""
        for peer in self.peers:
            if not peer.lost:
                peer.lose()
        self.settle()
        self.assertEqual(self.broker.sessions, {})
        for log in self.store.logs():
            self.assertEqual(len(log._waiters), 0, "a wait for messages is left")
        self.leave()
        self.assertEqual([call for call in self.clock.getDelayedCalls() if call.active()], [])
        self.assertEqual(self.files.open_handles, 0, "a file is still held")

    def connect(self, host: str = "10.0.0.7") -> Peer:
        """Connect a client."""
        connection = self.factory.buildProtocol(None)
        peer = Peer(connection, PeerTransport(host=host))
        self.peers.append(peer)
        connection.makeConnection(peer.transport)
        peer.pump()
        return peer

    def settle(self) -> None:
        """Let the threads work and the peers take what they are sent, until nothing moves."""
        for _ in range(10_000):
            busy = False
            for clock in (self.clock, self.tree_clock):
                if any(call.getTime() <= clock.seconds() for call in clock.getDelayedCalls()):
                    clock.advance(0)
                    busy = True
            for threads in (self.flushes, self.reads):
                if threads.works or threads.outcomes:
                    threads.settle()
                    busy = True
            for peer in self.peers:
                if peer.transport.taking and peer.transport.untaken and not peer.lost:
                    peer.transport.take()
                    busy = True
                peer.pump()
            if not busy:
                return
        self.fail("the broker never comes to rest")

    def let_tree_answer(self) -> None:
        """Let the tree answer, while the disk does nothing."""
        for _ in range(100):
            self.tree_clock.advance(0)
            self.clock.advance(0)

    def create(self, topic: str, partitions: int = 1, **settings: int | str) -> None:
        """Make a topic; ``segment_bytes=1`` is the setting segment.bytes."""
        creating = self.broker.administration.create(
            topic, partitions, {name.replace("_", "."): value for name, value in settings.items()}
        )
        self.settle()
        self.successResultOf(creating)

    def log_of(self, topic: str, partition: int = 0) -> PartitionLog:
        """Return the log of a partition that has one."""
        log = self.store.log(topic, partition)
        assert log is not None
        return log

    def content(self, topic: str, partition: int = 0) -> bytes:
        """Return the bytes of all segments of a partition, one behind the other."""
        folder = f"/data/{topic}-{partition}"
        names = [name for name in self.files.list(folder) if name.endswith(".log")]
        return b"".join(bytes(self.files._inode(f"{folder}/{name}").data) for name in names)

    def ask(self, peer: Peer, request: R) -> Any:
        """Send one request, let everything happen, and return the one answer."""
        peer.send(request)
        self.settle()
        (answer,) = peer.answers()
        return answer

    def produce(self, peer: Peer, topic: str, message_set: bytes, partition: int = 0, **more: Any) -> ProducedPart:
        """Produce one set, with acks -1 unless told otherwise, and return the answer's only part."""
        acks, restart = more.pop("acks", -1), more.pop("restart", False)
        request = ProduceAck(acks, 30_000, (ProducePart(topic, partition, 0, restart, message_set),))
        (part,) = self.ask(peer, request).parts
        assert isinstance(part, ProducedPart)
        return part
