"""Tests of logd.mirror.partition_copy and held_sets: sets that wait at a gate."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.fetching.batches import RawChunk
from logd.client.producer.pending_send import Sent
from logd.errors import LogdError, WrapperTooLarge
from logd.mirror.partition_copy import PartitionCopy
from logd.mirror.sets.held_sets import HeldSets
from logd.mirror.sets.whole_entries import MovingSet
from logd.mirror.target_topics import MirroredTopic
from logd.protocol import loops
from logd.protocol.message import Message
from logd.topic import TopicPartition

WHERE = TopicPartition("t", 0)


class GateTests(SynchronousTestCase):
    """A copy whose sets wait until the gate opens for them."""

    def setUp(self) -> None:
        """Make a copy whose sets named "wait" wait."""
        self.sent: list[tuple[str, Deferred[Sent]]] = []
        self.opening: list[Deferred[None]] = []
        self.stored: list[int] = []
        self.failures: list[str] = []
        self.cancelled = 0
        self.at = 0
        topic = MirroredTopic("t", "", "t", "", 1, 1)
        self.copy = PartitionCopy(
            WHERE, topic, self.send, lambda copy, chunk, moving, copied: self.stored.append(chunk.position),
            lambda copy, error: self.failures.append(str(error)), 0, held=HeldSets(self.gate),
        )  # fmt: skip

    def send(self, topic: str, partition: int, data: bytes) -> Deferred[Sent]:
        """Note what is sent."""
        (message,) = loops.decode_set(data).messages
        sending: Deferred[Sent] = Deferred()
        self.sent.append(((message.payload or b"").decode(), sending))
        return sending

    def gate(self, where: TopicPartition, moving: MovingSet) -> Deferred[None] | None:
        """Let pass what does not begin with "wait"."""
        if b"huge" in moving.data:
            raise WrapperTooLarge("too large to look at", 0)
        if b"wait" not in moving.data:
            return None

        def cancelled(_: object) -> None:
            self.cancelled += 1

        opens: Deferred[None] = Deferred(cancelled)
        self.opening.append(opens)
        return opens

    def take(self, text: str) -> None:
        """Give the copy one message."""
        data = loops.encode_set([Message(text.encode())])
        chunk = RawChunk("t", 0, self.at, data, self.at + len(data))
        self.at += len(data)
        self.copy.take(chunk)

    def names(self) -> list[str]:
        """Return what was sent."""
        return [name for name, _ in self.sent]

    def test_what_is_behind_a_set_that_waits_waits_too(self) -> None:
        """All of it leaves in order, up to the next one that waits."""
        for each in ("one", "wait2", "three", "wait4", "five"):
            self.take(each)
        self.assertEqual(self.names(), ["one"])
        self.assertEqual(self.copy.in_flight, self.at)
        self.opening.pop().callback(None)
        self.assertEqual(self.names(), ["one", "wait2", "three"])
        self.opening.pop().callback(None)
        self.assertEqual(self.names(), ["one", "wait2", "three", "wait4", "five"])
        for _, sending in reversed(self.sent):
            sending.callback(Sent("t", 0, 0, 50))
        self.assertEqual((len(self.stored), self.stored), (5, sorted(self.stored)))
        self.assertEqual((self.copy.in_flight, self.copy.done), (0, self.at))

    def test_a_copy_that_ends_does_not_wait_for_the_gate(self) -> None:
        """Sets that are not sent are dropped, and nothing that comes later counts as stored in their place."""
        self.take("one")
        self.take("wait")
        self.take("three")
        drained = self.copy.drained()
        self.take("four")
        self.assertNoResult(drained)
        self.assertEqual((self.names(), self.cancelled), (["one"], 1))
        self.sent[0][1].callback(Sent("t", 0, 0, 50))
        self.successResultOf(drained)
        self.assertEqual((self.stored, self.copy.in_flight), ([self.copy.done], 0))
        self.assertLess(self.copy.done, self.at)

    def test_a_copy_that_is_left_waits_no_more(self) -> None:
        """The gate is told, and nothing is reported."""
        self.take("wait")
        self.copy.abandon()
        self.assertEqual((self.cancelled, self.copy.in_flight, self.failures, self.sent), (1, 0, [], []))

    def test_what_is_in_flight_is_waited_for_behind_a_set_that_cannot_be_sent(self) -> None:
        """That set is no part of what is in flight, and takes no other one with it."""
        self.take("one")
        self.assertRaises(WrapperTooLarge, self.take, "huge")
        drained = self.copy.drained()
        self.assertNoResult(drained)
        self.sent[0][1].callback(Sent("t", 0, 0, 50))
        self.successResultOf(drained)
        self.assertEqual((self.stored, self.copy.in_flight), ([self.copy.done], 0))

    def test_an_error_of_the_gate_ends_the_copy(self) -> None:
        """The mirror begins it again."""
        self.take("wait")
        self.opening[0].errback(LogdError("a bug"))
        self.assertEqual(self.failures, ["a bug"])
