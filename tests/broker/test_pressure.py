"""Tests of backpressure on producers: too many bytes wait for the disk."""

from __future__ import annotations

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.flush_pressure import FlushPressure
from logd.net.session import PauseReason
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.broker.rig import BrokerTestCase, Peer
from tests.log.entries import plain

KILOBYTE = plain(bytes(1015))


@define(eq=False)
class Gated:
    """A connection that notes its pauses, and may shut the gate again when it goes on."""

    gate: FlushPressure
    shuts: bool = False
    paused: bool = False
    pauses: list[PauseReason] = field(factory=list)

    def pause(self, reason: PauseReason) -> None:
        """See Gated in logd.broker.flush_pressure."""
        self.paused = True
        self.pauses.append(reason)

    def resume(self, reason: PauseReason) -> None:
        """See Gated in logd.broker.flush_pressure."""
        self.paused = False
        if self.shuts:
            self.gate.set(True)


class ProducerGateTests(SynchronousTestCase):
    """The gate alone, with connections that are stand-ins."""

    def setUp(self) -> None:
        """Make a gate with three connections."""
        self.gate = FlushPressure()
        self.connections = [Gated(self.gate) for _ in range(3)]
        for connection in self.connections:
            self.gate.add(connection)

    def test_the_gate_pauses_all_connections(self) -> None:
        """Shutting it twice changes nothing, and is counted once."""
        self.gate.set(True)
        self.gate.set(True)
        self.assertEqual([connection.pauses for connection in self.connections], [[PauseReason.FLUSH]] * 3)
        self.gate.set(False)
        self.assertEqual([connection.paused for connection in self.connections], [False] * 3)
        self.assertEqual((self.gate.shut, self.gate.times_shut), (False, 1))

    def test_a_late_connection_is_paused_too(self) -> None:
        """One that was taken out of the gate is left alone."""
        self.gate.discard(self.connections[0])
        self.gate.set(True)
        late = Gated(self.gate)
        self.gate.add(late)
        self.assertEqual((late.paused, self.connections[0].paused), (True, False))

    def test_a_gate_shut_again_pauses_everyone(self) -> None:
        """The first connection that goes on may fill the disk's queue at once; it is paused too, with the others."""
        for connection in self.connections:
            connection.shuts = True
        self.gate.set(True)
        self.gate.set(False)
        self.assertTrue(self.gate.shut)
        self.assertEqual([connection.paused for connection in self.connections], [True] * 3)

    def test_one_failing_connection_spares_the_others(self) -> None:
        """A defect in one connection must not leave the rest of the producers paused for ever."""

        class Broken(Gated):
            def pause(self, reason: PauseReason) -> None:
                raise ValueError("a bug")

            def resume(self, reason: PauseReason) -> None:
                raise ValueError("a bug")

        gate = FlushPressure()
        connections = [Gated(gate), Broken(gate), Gated(gate)]
        for connection in connections:
            gate.add(connection)
        for shut in (True, False):
            gate.set(shut)
            self.assertEqual([connection.paused for connection in connections], [shut, False, shut])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 2)


class PressureTests(BrokerTestCase):
    """The producers of a broker whose disk is slow."""

    options = {"unflushed_bytes": 10 * 1024}  # noqa: RUF012

    def setUp(self) -> None:
        """Connect three producers, and a consumer."""
        super().setUp()
        self.create("t", 2)
        self.producers = [self.connect() for _ in range(3)]
        for producer in self.producers:
            producer.send(Produce("t", 0, plain(b"I produce")))
        self.settle()
        self.consumer = self.connect()
        self.start = self.log_of("t").end

    def fill(self, peer: Peer, kilobytes: int) -> None:
        """Produce, each kilobyte in a read of its own."""
        for _ in range(kilobytes):
            peer.send(Produce("t", 0, KILOBYTE))

    def reading(self) -> list[bool]:
        """Tell of each producer in turn if the broker reads from it."""
        return [producer.reading for producer in self.producers]

    def test_unflushed_bytes_pause_all_producers(self) -> None:
        """The bound is on the whole broker, so bytes of one producer count against the others."""
        self.fill(self.producers[0], 10)
        self.assertEqual(self.reading(), [True] * 3)
        self.fill(self.producers[1], 1)
        self.assertEqual(self.reading(), [False] * 3)
        self.fill(self.producers[2], 100)
        self.assertLessEqual(self.store.unflushed_bytes, 11 * 1024)
        self.assertTrue(self.broker.gate.shut)

    def test_consumers_are_served_meanwhile(self) -> None:
        """A consumer that begins to produce is paused with its first set."""
        self.fill(self.producers[0], 11)
        self.consumer.send(Fetch("t", 0, 0, 10))
        self.assertEqual(len(self.consumer.answers()), 1)
        self.consumer.send(ProduceAck(1, 1000, (ProducePart("t", 1, 0, False, KILOBYTE),)))
        self.assertFalse(self.consumer.reading)
        self.consumer.send(Fetch("t", 0, 0, 10))
        self.assertEqual(len(self.consumer.answers()), 1)  # of the set alone
        self.settle()
        self.assertEqual(len(self.consumer.answers()), 1)

    def test_producers_go_on_at_half_the_bound(self) -> None:
        """Everything arrives in the end, wherever it was held back."""
        for producer in self.producers:
            self.fill(producer, 100)
        self.assertEqual(self.reading(), [False] * 3)
        most = 0
        for _ in range(10_000):
            most = max(most, self.store.unflushed_bytes)
            if not (self.flushes.works or self.flushes.outcomes):
                break
            if self.flushes.works:
                self.flushes.work()
            else:
                self.flushes.deliver()
            for producer in self.producers:
                producer.pump()
        self.assertEqual(self.log_of("t").end - self.start, 300 * 1024)
        self.assertEqual(self.log_of("t").visible_end, self.log_of("t").end)
        # All bytes of one read are taken, however many they are.
        self.assertLess(most, (11 + 256) * 1024)
        self.assertEqual((self.reading(), self.broker.gate.shut), ([True] * 3, False))

    def test_a_paused_producer_may_leave(self) -> None:
        """The bytes that it had sent and that were not read yet are dropped, and the others go on."""
        self.fill(self.producers[0], 11)
        self.producers[1].send(Produce("t", 1, KILOBYTE))
        self.producers[1].lose()
        self.settle()
        self.assertEqual(self.content("t", 1), b"")
        self.assertEqual(self.producers[0].reading, True)

    def test_an_offline_partition_holds_back_no_producer(self) -> None:
        """Bytes that will never be flushed would keep the gate shut for ever."""
        self.files.fail_syncs = 1
        self.fill(self.producers[0], 11)
        self.assertEqual(self.reading(), [False] * 3)
        self.settle()
        self.assertEqual(self.reading(), [True] * 3)
        self.assertEqual(self.store.unflushed_bytes, 0)
