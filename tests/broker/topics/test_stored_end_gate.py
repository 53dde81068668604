"""Tests of producers that wait while a log may not grow."""

from __future__ import annotations

from time import process_time

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.topics.ends_recorder import EndsRecorder
from logd.broker.topics.stored_end_gate import StoredEndGate
from logd.net.session import PauseReason
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.repair import SERVED_AGAIN
from tests.broker.lost_logs import HELLO, LostLogTestCase

OFFLINE_ERROR = 106


class HeldLogTests(LostLogTestCase):
    """A log that may not grow, and the producers that wait to append to it."""

    def setUp(self) -> None:
        """Hold the log of the first partition."""
        super().setUp()
        self.gate = self.broker.growth
        self.gate.hold(self.log_of("t"))

    def send(self, partition: int = 0) -> None:
        """Connect a producer whose request waits."""
        self.peer = self.connect()
        self.peer.send(ProduceAck(-1, 30_000, (ProducePart("t", partition, 0, False, HELLO),)))
        self.settle()
        self.assertEqual(self.peer.answers(), [])

    def error(self) -> int:
        """Return the error code of the producer's answer."""
        self.settle()
        (answer,) = self.peer.answers()
        code: int = answer.parts[0].error
        return code

    def test_a_lost_connection_leaves_the_wait(self) -> None:
        """Connections would pile up for as long as the log waits."""
        for _ in range(5):
            self.send()
            self.peer.lose()
        self.assertEqual(len(self.gate._waiting), 0)
        self.gate.let_go_topic("t")

    def test_acks_one_waits_too(self) -> None:
        """A request with one small part has a shorter way, which is not for such a log."""
        self.send()
        self.peer.lose()
        peer = self.connect()
        peer.send(ProduceAck(1, 30_000, (ProducePart("t", 0, 0, False, HELLO),)))
        self.settle()
        self.assertEqual(peer.answers(), [])
        self.gate.let_go_topic("t")
        self.settle()
        (answer,) = peer.answers()
        self.assertEqual(answer.parts[0].error, 0)

    def test_going_offline_ends_the_wait(self) -> None:
        """Producers get the error, since the log may stay offline for good."""
        self.send()
        self.log_of("t").go_offline(OSError(5, "the disk is gone"))
        self.assertEqual(self.error(), OFFLINE_ERROR)
        self.assertEqual(self.gate.held, {})

    def test_an_offline_log_is_not_held(self) -> None:
        """A log that is offline takes no messages anyway."""
        self.gate.let_go([self.log_of("t")])
        self.log_of("t").go_offline(OSError(5, "the disk is gone"))
        self.gate.hold(self.log_of("t"))
        self.assertEqual(self.gate.held, {})

    def test_a_log_served_again_holds_up_nobody(self) -> None:
        """Partition -1 must not wait for the former log of the partition."""
        self.log_of("t").go_offline(OSError(5, "the disk is gone"))
        self.assertEqual(self.repair().state, SERVED_AGAIN)
        peer = self.connect()
        self.assertEqual(self.produce(peer, "t", HELLO, -1).error, 0)

    def test_a_topics_logs_are_let_go_together(self) -> None:
        """A waiting request looks again once, not once for each log."""
        self.gate.hold(self.log_of("t", 1))
        self.send(-1)
        self.gate.let_go_topic("t")
        self.assertEqual(self.error(), 0)
        self.assertEqual((self.gate.held, len(self.gate._waiting)), ({}, 0))


@define
class _Destination:
    topic: str
    partition: int


@define(eq=False)
class _Log:
    """The part of a log that the gate looks at."""

    topic: str
    partition: int

    def wait_visible(self, position: int, listener: object) -> None:
        """Do nothing: the log never goes offline."""


@define(eq=False)
class _Connection:
    """A stand-in that counts how often it may go on."""

    resumed: int = 0
    fails: bool = False
    pauses: list[PauseReason] = field(factory=list)

    def pause(self, reason: PauseReason) -> None:
        """See Gated."""
        self.pauses.append(reason)

    def resume(self, reason: PauseReason) -> None:
        """See Gated."""
        self.resumed += 1
        if self.fails:
            raise RuntimeError("a bug")


class StoredEndGateTests(SynchronousTestCase):
    """The gate alone, with logs and connections that are stand-ins."""

    def test_other_topics_cost_a_produce_nothing(self) -> None:
        """10,000 logs of another topic are held."""
        gate = StoredEndGate()
        logs = [_Log("new", number) for number in range(10_000)]
        for log in logs:
            gate.hold(log)  # type: ignore[arg-type]
        began = process_time()
        for _ in range(10_000):
            self.assertFalse(gate.must_wait([_Destination("other", 0)], None))  # type: ignore[arg-type]
        self.assertLess(process_time() - began, 1)
        self.assertTrue(gate.must_wait([_Destination("new", -1)], None))  # type: ignore[arg-type]  # as above
        connection = _Connection()
        gate.wait(connection)
        gate.let_go(logs)  # type: ignore[arg-type]
        self.assertEqual((connection.resumed, gate.held), (1, {}))

    def test_one_failing_connection_spares_the_others(self) -> None:
        """A defect in one connection must not leave producers waiting for ever."""
        gate, log = StoredEndGate(), _Log("t", 0)
        gate.hold(log)  # type: ignore[arg-type]
        connections = [_Connection(fails=True), _Connection()]
        for connection in connections:
            gate.wait(connection)
        gate.let_go([log])  # type: ignore[list-item]
        self.assertEqual([each.resumed for each in connections], [1, 1])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)


class ManyTopicsTests(LostLogTestCase):
    """A broker with thousands of topics."""

    def test_forgetting_a_topic_costs_the_same(self) -> None:
        """The 10,000th takes no longer than the first."""
        ends: EndsRecorder = self.broker.ends
        began = process_time()
        for number in range(10_000):
            ends.forget(f"topic-{number}")
            ends._limits[f"topic-{number}"] = {0: 1}
        self.assertLess(process_time() - began, 1)
