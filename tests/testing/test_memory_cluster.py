"""Tests of logd.testing.memory.cluster and of what it is made of."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.testing import MemoryCluster, NotYet
from logd.testing.memory.clocks import ProcessClock
from logd.testing.memory.network import MemoryNetwork


class MemoryClusterTests(SynchronousTestCase):
    """MemoryCluster."""

    def setUp(self) -> None:
        """A cluster of two."""
        self.cluster = MemoryCluster(brokers=2, topics_partitions=3)
        self.cluster.wait(self.cluster.start())

    def test_leaves_nothing(self) -> None:
        """After a stop nothing is due and nothing is connected."""
        cluster = self.cluster
        cluster.wait(cluster.producer().send("t", b"x"))
        (stream,) = cluster.consumer(group="g").create_message_streams("t", 1)
        self.assertEqual(cluster.wait(stream.get()).payload, b"x")
        cluster.wait(cluster.stop())
        self.assertEqual([call for call in cluster.clock.getDelayedCalls() if call.active()], [])
        self.assertEqual(dict(cluster.network.wires), {})

    def test_spreads(self) -> None:
        """Partitions are on all brokers."""
        self.cluster.wait(self.cluster.admin().create("t", 4))
        described = self.cluster.wait(self.cluster.admin().describe("t"))
        self.assertEqual({each.leader for each in described.partitions}, {0, 1})
        self.cluster.wait(self.cluster.stop())

    def test_not_yet(self) -> None:
        """What never happens is said so, and what fails is raised."""
        self.assertRaises(NotYet, self.cluster.wait, Deferred(), 1.0)
        self.assertRaises(ValueError, self.cluster.wait, self._failing())
        self.cluster.wait(self.cluster.stop())

    async def _failing(self) -> None:
        raise ValueError


class Recorder(Protocol):
    """Notes what happens to it."""

    transport: Any

    def __init__(self) -> None:
        self.data = b""
        self.lost: Any = None

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        """See IProtocol."""
        self.data += data

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802
        """See IProtocol."""
        self.lost = reason


class MemoryNetworkTests(SynchronousTestCase):
    """MemoryNetwork and its transports."""

    def setUp(self) -> None:
        """A listener, and a connection to it, on a network that tears and delays."""
        self.clock = Clock()
        random = Random(1)
        self.network = MemoryNetwork(self.clock, lambda: random.random() / 100, random)
        self.servers: list[Recorder] = []
        self.network.listen("there", 1, Factory.forProtocol(self._make))
        connecting = self.network.endpoint("here", "there", 1).connect(Factory.forProtocol(Recorder))
        self.turn()
        self.client = self.successResultOf(connecting)
        (self.server,) = self.servers

    def _make(self) -> Recorder:
        self.servers.append(Recorder())
        return self.servers[-1]

    def turn(self, seconds: float = 1.0) -> None:
        """Let time pass."""
        self.clock.pump([0.001] * round(seconds * 1000))

    def test_in_order(self) -> None:
        """Bytes arrive whole and in order, also the last ones before a close."""
        sent = [bytes([number]) * 50 for number in range(100)]
        for piece in sent:
            self.client.transport.write(piece)
        self.client.transport.loseConnection()
        self.turn()
        self.assertEqual(self.server.data, b"".join(sent))
        self.assertIsNotNone(self.server.lost)
        self.assertEqual(dict(self.network.wires), {})

    def test_cut(self) -> None:
        """Both ends learn of a cut."""
        (wire,) = self.network.wires
        self.network.cut(wire)
        self.turn()
        self.assertIsNotNone(self.client.lost)
        self.assertIsNotNone(self.server.lost)

    def test_half_open(self) -> None:
        """One end learns; the other when it writes."""
        (wire,) = self.network.wires
        self.network.half_open(wire, 0)
        self.turn()
        self.assertIsNotNone(self.client.lost)
        self.assertIsNone(self.server.lost)
        self.server.transport.write(b"x")
        self.turn()
        self.assertIsNotNone(self.server.lost)

    def test_block(self) -> None:
        """Nothing arrives until the network is healed, and then everything does; nobody can connect meanwhile."""
        self.network.block("here", "there")
        self.client.transport.write(b"held up")
        failing = self.network.endpoint("here", "there", 1, timeout=0.5).connect(Factory.forProtocol(Recorder))
        self.turn()
        self.failureResultOf(failing)
        self.assertEqual(self.server.data, b"")
        self.network.heal()
        self.turn()
        self.assertEqual(self.server.data, b"held up")

    def test_pause(self) -> None:
        """Who does not read makes the other's producer pause, and go on again."""
        calls: list[str] = []

        class Producer:
            def pauseProducing(self) -> None:  # noqa: N802
                calls.append("pause")

            def resumeProducing(self) -> None:  # noqa: N802
                calls.append("resume")

            def stopProducing(self) -> None:  # noqa: N802
                calls.append("stop")

        self.server.transport.pauseProducing()
        self.client.transport.registerProducer(Producer(), True)
        self.client.transport.write(bytes(100_000))
        self.turn()
        self.assertEqual((calls, self.server.data), (["pause"], b""))
        self.server.transport.resumeProducing()
        self.turn()
        self.assertEqual((calls, len(self.server.data)), (["pause", "resume"], 100_000))


class ProcessClockTests(SynchronousTestCase):
    """ProcessClock."""

    def setUp(self) -> None:
        """A process on a clock."""
        self.world = Clock()
        self.process = ProcessClock(self.world)
        self.calls: list[str] = []

    def test_pause(self) -> None:
        """What is due while the process stands still happens in its order when it goes on."""
        self.process.callLater(2, self.calls.append, "second")
        self.process.callLater(1, self.calls.append, "first")
        cancelled = self.process.callLater(1.5, self.calls.append, "never")
        self.process.pause()
        self.world.advance(3)
        self.assertEqual(self.calls, [])
        cancelled.cancel()
        self.process.resume()
        self.world.advance(0)
        self.assertEqual(self.calls, ["first", "second"])

    def test_kill(self) -> None:
        """Nothing happens in a process that is dead, whatever it scheduled and whoever lets it go on."""
        self.process.callLater(1, self.calls.append, "late")
        self.process.callLater(5, self.calls.append, "later")
        self.process.pause()
        self.world.advance(2)
        self.process.kill()
        self.process.resume()
        self.process.callLater(0, self.calls.append, "after")
        self.world.advance(10)
        self.assertEqual(self.calls, [])
