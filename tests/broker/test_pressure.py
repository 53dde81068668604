"""Tests of what holds producers back: bytes that wait for the disk."""

from __future__ import annotations

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.flush_pressure import FlushPressure
from logd.net.pause_reasons import PauseReason
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.broker.doubles import BrokerTestCase, Peer
from tests.log.entries import plain

KILOBYTE = plain(bytes(1015))


@define(eq=False)
class Gated:
    """A connection that is held or not, and may do something when it is let go."""

    gate: FlushPressure
    shuts: bool = False
    held: bool = False
    holds: list[PauseReason] = field(factory=list)

    def pause(self, reason: PauseReason) -> None:
        """See Gated in logd.broker.flush_pressure."""
        self.held = True
        self.holds.append(reason)

    def resume(self, reason: PauseReason) -> None:
        """See Gated in logd.broker.flush_pressure."""
        self.held = False
        if self.shuts:
            self.gate.set(True)


class ProducerGateTests(SynchronousTestCase):
    """The gate alone."""

    def setUp(self) -> None:
        """A gate with three connections."""
        self.gate = FlushPressure()
        self.connections = [Gated(self.gate) for _ in range(3)]
        for connection in self.connections:
            self.gate.add(connection)

    def test_all(self) -> None:
        """Shutting it holds all, opening it lets all go; saying so twice changes nothing."""
        self.gate.set(True)
        self.gate.set(True)
        self.assertEqual([connection.holds for connection in self.connections], [[PauseReason.FLUSH]] * 3)
        self.gate.set(False)
        self.assertEqual([connection.held for connection in self.connections], [False] * 3)
        self.assertEqual((self.gate.shut, self.gate.times_shut), (False, 1))

    def test_late(self) -> None:
        """Who comes while it is shut is held; who has gone is left alone."""
        self.gate.discard(self.connections[0])
        self.gate.set(True)
        late = Gated(self.gate)
        self.gate.add(late)
        self.assertEqual((late.held, self.connections[0].held), (True, False))

    def test_shut_again_meanwhile(self) -> None:
        """When one that is let go shuts the gate again, the others stay held: all of them, and that one too."""
        for connection in self.connections:
            connection.shuts = True
        self.gate.set(True)
        self.gate.set(False)
        self.assertTrue(self.gate.shut)
        self.assertEqual([connection.held for connection in self.connections], [True] * 3)

    def test_one_that_raises(self) -> None:
        """A connection that cannot be paused, or let go on, leaves none of the others as they were."""

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
            self.assertEqual([connection.held for connection in connections], [shut, False, shut])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 2)


class PressureTests(BrokerTestCase):
    """Producers of a broker whose disk is slow."""

    options = {"unflushed_bytes": 10 * 1024}  # noqa: RUF012

    def setUp(self) -> None:
        """Some producers, and a consumer."""
        super().setUp()
        self.create("t", 2)
        self.producers = [self.connect() for _ in range(3)]
        for producer in self.producers:
            producer.send(Produce("t", 0, plain(b"I produce")))
        self.settle()
        self.consumer = self.connect()
        self.start = self.log_of("t").end

    def fill(self, peer: Peer, kilobytes: int) -> None:
        """Produce, one read for each kilobyte."""
        for _ in range(kilobytes):
            peer.send(Produce("t", 0, KILOBYTE))

    def reading(self) -> list[bool]:
        """Which producers are read."""
        return [producer.reading for producer in self.producers]

    def test_paused(self) -> None:
        """Above unflushed.bytes all that produce are paused, also by kilobytes that wait in partitions of others."""
        self.fill(self.producers[0], 10)
        self.assertEqual(self.reading(), [True] * 3)
        self.fill(self.producers[1], 1)
        self.assertEqual(self.reading(), [False] * 3)
        self.fill(self.producers[2], 100)
        self.assertLessEqual(self.store.unflushed_bytes, 11 * 1024)
        self.assertTrue(self.broker.gate.shut)

    def test_others_are_served(self) -> None:
        """Who does not produce is served all the while; who begins to is paused with the first set."""
        self.fill(self.producers[0], 11)
        self.consumer.send(Fetch("t", 0, 0, 10))
        self.assertEqual(len(self.consumer.answers()), 1)
        self.consumer.send(ProduceAck(1, 1000, (ProducePart("t", 1, 0, False, KILOBYTE),)))
        self.assertFalse(self.consumer.reading)
        self.consumer.send(Fetch("t", 0, 0, 10))
        self.assertEqual(len(self.consumer.answers()), 1)  # of the set alone
        self.settle()
        self.assertEqual(len(self.consumer.answers()), 1)

    def test_go_on(self) -> None:
        """Once half of it is flushed they go on; everything arrives, whatever was held back where."""
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
        # What came in one read is taken whole.
        self.assertLess(most, (11 + 256) * 1024)
        self.assertEqual((self.reading(), self.broker.gate.shut), ([True] * 3, False))

    def test_lost_while_paused(self) -> None:
        """Who goes away while it is paused is forgotten; what it had sent and was not read is not taken."""
        self.fill(self.producers[0], 11)
        self.producers[1].send(Produce("t", 1, KILOBYTE))
        self.producers[1].lose()
        self.settle()
        self.assertEqual(self.content("t", 1), b"")
        self.assertEqual(self.producers[0].reading, True)

    def test_partition_fails(self) -> None:
        """Bytes that will never be flushed, because their partition is offline, hold nobody back."""
        self.files.fail_syncs = 1
        self.fill(self.producers[0], 11)
        self.assertEqual(self.reading(), [False] * 3)
        self.settle()
        self.assertEqual(self.reading(), [True] * 3)
        self.assertEqual(self.store.unflushed_bytes, 0)
