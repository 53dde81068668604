"""Tests of logd.mirror.partition_copy and held_sets: sets that wait for schemas."""

from __future__ import annotations

from typing import cast

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.avro.framing import HEAD_BYTES, head
from logd.client.consumer.fetching.batches import RawChunk
from logd.client.consumer.fetching.losses import Loss
from logd.client.producer.pending_send import Sent
from logd.deferreds.stepped_works import SteppedWorks
from logd.errors import LogdError
from logd.mirror.audit.mirror_audit import MirrorAudit
from logd.mirror.partition_copy import PartitionCopy
from logd.mirror.schemas.schema_gate import SchemaGate
from logd.mirror.set_preparation import SetPreparation
from logd.mirror.target_topics import MirroredTopic
from logd.protocol import loops
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from logd.protocol.slices import Steps
from logd.topic import TopicPartition

WHERE = TopicPartition("t", 0)


class GateTests(SynchronousTestCase):
    """A copy whose sets wait until the gate opens for them."""

    def setUp(self) -> None:
        """Make a copy whose sets wait that name schema 1."""
        self.sent: list[tuple[str, Deferred[Sent]]] = []
        self.opening: list[Deferred[None]] = []
        self.stored: list[int] = []
        self.failures: list[str] = []
        self.cancelled = 0
        self.at = 0
        topic = MirroredTopic("t", "", "t", "", 1, 1)
        # The test case stands for the gate.
        preparation = SetPreparation(SteppedWorks(Clock(), 1), cast(SchemaGate, self), bounds=(1000, 10))
        self.copy = PartitionCopy(
            WHERE, topic, preparation, self.send,
            lambda copy, chunk, moving: self.stored.append(chunk.position),
            lambda copy, error: self.failures.append(str(error)), 0,
        )  # fmt: skip

    def send(self, topic: str, partition: int, data: bytes) -> Deferred[Sent]:
        """Note what is sent."""
        (message,) = loops.decode_set(data).messages
        sending: Deferred[Sent] = Deferred()
        self.sent.append(((message.payload or b"")[HEAD_BYTES:].decode(), sending))
        return sending

    def wait(self, where: TopicPartition, named: set[int]) -> Deferred[None] | None:
        """Let pass what does not name schema 1; the bug of a gate that cannot say is schema 3."""
        if 3 in named:
            raise ValueError("a bug")
        if 1 not in named:
            return None

        def cancelled(_: object) -> None:
            self.cancelled += 1

        opens: Deferred[None] = Deferred(cancelled)
        self.opening.append(opens)
        return opens

    def take(self, text: str, schema: int = 0) -> bool:
        """Give the copy one message, of schema 1 if its text begins with "wait"."""
        schema = schema or (1 if text.startswith("wait") else 2)
        return self.take_bytes(loops.encode_set([Message(head(schema) + text.encode())]))

    def take_bytes(self, data: bytes) -> bool:
        """Give the copy the next bytes."""
        chunk = RawChunk("t", 0, self.at, data, self.at + len(data))
        self.at += len(data)
        return self.copy.take(chunk)

    def names(self) -> list[str]:
        """Return what was sent."""
        return [name for name, _ in self.sent]

    def test_what_is_behind_a_set_that_waits_waits_too(self) -> None:
        """All of it leaves in order, up to the next one that waits."""
        for each in ("one", "wait2", "three", "wait4", "five"):
            self.assertTrue(self.take(each))
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
        self.assertFalse(self.take("four"))
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
        self.assertFalse(self.take("more"))

    def test_what_is_in_flight_is_waited_for_behind_a_set_that_cannot_be_sent(self) -> None:
        """That set is no part of what is in flight, takes no other one with it, and is told of afterwards."""
        self.take("one")
        self.assertFalse(self.take_bytes(wrap([Message(b"more than the bounds")] * 11, "gzip")))
        self.assertFalse(self.take("three"))
        self.assertEqual((self.names(), self.failures), (["one"], []))
        self.sent[0][1].callback(Sent("t", 0, 0, 50))
        self.assertEqual((self.stored, self.copy.in_flight), ([self.copy.done], 0))
        (failure,) = self.failures
        self.assertIn("max_decompressed_messages = 10", failure)

    def test_damage_behind_a_set_that_waits(self) -> None:
        """It is told of once all before it is stored: a copy that began again at once would never get past the wait."""
        self.take("wait")
        self.assertFalse(self.take_bytes(bytes(20)))
        self.assertEqual((self.failures, self.cancelled), ([], 0))
        self.opening.pop().callback(None)
        self.assertEqual((self.names(), self.failures), (["wait"], []))
        self.sent[0][1].callback(Sent("t", 0, 0, 50))
        self.assertEqual(len(self.failures), 1)
        self.assertEqual(self.copy.done, self.at - 20)

    def test_nothing_is_told_of_a_copy_that_was_left(self) -> None:
        """Another mirror meets the damage."""
        self.take("one")
        self.take_bytes(bytes(20))
        self.copy.abandon()
        self.assertEqual((self.failures, self.copy.in_flight), ([], 0))

    def test_an_error_of_the_gate_ends_the_copy(self) -> None:
        """The mirror begins it again."""
        self.take("wait")
        self.opening[0].errback(LogdError("a bug"))
        self.assertEqual(self.failures, ["a bug"])

    def test_a_gate_that_is_closed_ends_the_copy(self) -> None:
        """As does one with a bug, which is logged."""
        self.take("wait")
        self.opening[0].errback(CancelledError())
        self.assertEqual(self.failures, ["the preparation of a set was cancelled"])

    def test_a_bug_ends_the_copy(self) -> None:
        """It is logged, and the mirror begins it again."""
        self.assertFalse(self.take("three", 3))
        self.assertEqual(self.failures, ["a bug"])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_a_bug_of_the_count_ends_the_copy(self) -> None:
        """It would stand still otherwise, with all that is behind the set in flight."""
        self.copy.preparation = evolve(self.copy.preparation, audit=cast(MirrorAudit, self))
        self.take("one")
        self.take("two")
        self.sent[0][1].callback(Sent("t", 0, 0, 50))
        self.assertEqual((self.stored, self.failures), ([], ["no count"]))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_a_log_that_has_lost_its_end_is_copied_from_where_it_goes_on(self) -> None:
        """Else a copy that begins again would pass what was written in the place of the end, and commit that."""
        for each in ("one", "two", "three"):
            self.take(each)
        lost, self.at = self.at, self.at // 3
        loss = Loss("t", 0, "jump", lost, self.at, None, "not in the log")
        data = loops.encode_set([Message(head(2) + b"four")])
        self.copy.take(RawChunk("t", 0, self.at, data, self.at + len(data), (loss,)))
        for _, sending in self.sent[:3]:
            sending.callback(Sent("t", 0, 0, 50))
        self.assertEqual((self.copy.done, self.copy.in_flight), (lost, len(data)))
        self.sent[3][1].callback(Sent("t", 0, 50, 70))
        self.assertEqual((self.copy.done, self.copy.in_flight), (self.at + len(data), 0))

    def tally(self, *_: object) -> Steps[None]:
        """Count nothing of a set before it is sent, as an audit whose counts are not held."""
        yield from ()

    def count(self, *_: object) -> Steps[None]:
        """Fail, as an audit with a bug."""
        yield False
        raise ValueError("no count")
