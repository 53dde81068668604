"""Tests of logd.testing.memory.cluster, and of the network and the clocks that it is made of."""

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
    """A cluster of two brokers, with real producers and consumers."""

    def setUp(self) -> None:
        """Start a cluster of two brokers."""
        self.cluster = MemoryCluster(brokers=2, topics_partitions=3)
        self.cluster.wait(self.cluster.start())

    def test_a_stopped_cluster_leaves_no_call_and_no_connection(self) -> None:
        """A test that left some would disturb the next one on the same clock."""
        cluster = self.cluster
        cluster.wait(cluster.producer().send("t", b"x"))
        (stream,) = cluster.consumer(group="g").create_message_streams("t", 1)
        self.assertEqual(cluster.wait(stream.get()).payload, b"x")
        cluster.wait(cluster.stop())
        self.assertEqual([call for call in cluster.clock.getDelayedCalls() if call.active()], [])
        self.assertEqual(dict(cluster.network.wires), {})

    def test_partitions_spread_over_all_brokers(self) -> None:
        """A cluster whose topics lay on one broker would hide faults of routing."""
        self.cluster.wait(self.cluster.admin().create("t", 4))
        described = self.cluster.wait(self.cluster.admin().describe("t"))
        self.assertEqual({each.leader for each in described.partitions}, {0, 1})
        self.cluster.wait(self.cluster.stop())

    def test_a_wait_raises_not_yet_or_the_failure(self) -> None:
        """A Deferred that never fires raises NotYet, and one that fails raises its own error."""
        self.assertRaises(NotYet, self.cluster.wait, Deferred(), 1.0)
        self.assertRaises(ValueError, self.cluster.wait, self._failing())
        self.cluster.wait(self.cluster.stop())

    async def _failing(self) -> None:
        raise ValueError


class Recorder(Protocol):
    """A protocol that records the data and the end of its connection."""

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
    """Connections on a network that tears writes apart and delays the pieces."""

    def setUp(self) -> None:
        """Listen, and connect."""
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

    def test_bytes_arrive_whole_and_in_order(self) -> None:
        """The last ones before a close arrive too, although each write is torn and delayed."""
        sent = [bytes([number]) * 50 for number in range(100)]
        for piece in sent:
            self.client.transport.write(piece)
        self.client.transport.loseConnection()
        self.turn()
        self.assertEqual(self.server.data, b"".join(sent))
        self.assertIsNotNone(self.server.lost)
        self.assertEqual(dict(self.network.wires), {})

    def test_both_ends_learn_of_a_cut(self) -> None:
        """Each protocol gets connectionLost, as from a reset."""
        (wire,) = self.network.wires
        self.network.cut(wire)
        self.turn()
        self.assertIsNotNone(self.client.lost)
        self.assertIsNotNone(self.server.lost)

    def test_a_half_open_connection_ends_by_a_write(self) -> None:
        """One end is told at once; the other one only when it writes."""
        (wire,) = self.network.wires
        self.network.half_open(wire, 0)
        self.turn()
        self.assertIsNotNone(self.client.lost)
        self.assertIsNone(self.server.lost)
        self.server.transport.write(b"x")
        self.turn()
        self.assertIsNotNone(self.server.lost)

    def test_blocked_bytes_arrive_once_the_network_is_healed(self) -> None:
        """No connection can be made meanwhile, and what was written is kept."""
        self.network.block("here", "there")
        self.client.transport.write(b"held up")
        failing = self.network.endpoint("here", "there", 1, timeout=0.5).connect(Factory.forProtocol(Recorder))
        self.turn()
        self.failureResultOf(failing)
        self.assertEqual(self.server.data, b"")
        self.network.heal()
        self.turn()
        self.assertEqual(self.server.data, b"held up")

    def test_one_direction_can_be_blocked(self) -> None:
        """Bytes that are written the other way arrive."""
        self.network.block_one_way("here", "there")
        self.client.transport.write(b"held up")
        self.server.transport.write(b"arrives")
        self.turn()
        self.assertEqual((self.client.data, self.server.data), (b"arrives", b""))
        self.network.heal()
        self.turn()
        self.assertEqual(self.server.data, b"held up")

    def test_a_reader_that_pauses_pauses_the_writer(self) -> None:
        """The writer's producer is paused at once, and resumed when the bytes are read."""
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
    """The clock of one process of many, which can be paused and killed."""

    def setUp(self) -> None:
        """Make a process's clock over the clock of the world."""
        self.world = Clock()
        self.process = ProcessClock(self.world)
        self.calls: list[str] = []

    def test_calls_of_a_paused_process_run_when_it_goes_on(self) -> None:
        """They run in their order; one that is cancelled meanwhile does not."""
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

    def test_no_call_of_a_killed_process_runs(self) -> None:
        """Calls that were due before do not run, nor later ones, nor any after a resume."""
        self.process.callLater(1, self.calls.append, "late")
        self.process.callLater(5, self.calls.append, "later")
        self.process.pause()
        self.world.advance(2)
        self.process.kill()
        self.process.resume()
        self.process.callLater(0, self.calls.append, "after")
        self.world.advance(10)
        self.assertEqual(self.calls, [])
