"""Tests of logd.spark.blocking.producing, against a broker that refuses, loses and comes back."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import DeliveryFailed, InvalidMessage, MessageTooLarge, StorageFull
from logd.protocol.key_placement import partition_of_key
from logd.protocol.loops import decode_set
from logd.protocol.message import Message
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducedPart
from logd.spark.blocking.producing import ExecutorProducer
from tests.spark.doubles import FakeBroker, FakeLog, FakeTopic


class ExecutorProducerTests(SynchronousTestCase):
    """``ExecutorProducer``."""

    def setUp(self) -> None:
        """Make a topic of three partitions."""
        self.broker = FakeBroker({"t": FakeTopic(logs=[FakeLog(), FakeLog(), FakeLog()])})
        self.producer = ExecutorProducer(self.broker.cluster(retry_timeout=10.0), batch_bytes=1000)

    def values(self, partition: int) -> list[bytes | None]:
        """Return the payloads in a partition."""
        return [each.payload for each in decode_set(self.broker.topics["t"].logs[partition].data).messages]

    def send(self, count: int) -> list[bytes | None]:
        """Send numbered messages to partition 1; return their values."""
        values: list[bytes | None] = [b"%d" % number for number in range(count)]
        for value in values:
            self.producer.send("t", Message(value), 1)
        self.producer.flush()
        return values

    def test_messages_arrive_in_bounded_batches(self) -> None:
        """Their order holds, and all are counted."""
        values = self.send(1000)
        self.assertEqual(self.values(1), values)
        requests = [each for each in self.broker.requests if isinstance(each, ProduceAck)]
        self.assertGreater(len(requests), 10)
        self.assertEqual({each.acks for each in requests}, {-1})
        self.assertLess(max(len(part.message_set) for each in requests for part in each.parts), 1100)
        self.assertEqual(self.producer.messages, 1000)

    def test_a_key_decides_the_partition(self) -> None:
        """Without one a partition is kept until the next flush."""
        self.producer.send("t", Message(b"a", key=b"k"))
        chosen = iter((2, 0))
        self.producer.choose = lambda partitions: next(chosen)
        for value in (b"b", b"c"):
            self.producer.send("t", Message(value))
        self.producer.flush()
        self.producer.send("t", Message(b"d"))
        self.producer.flush()
        self.assertIn(b"a", self.values(partition_of_key(b"k", 3)))
        self.assertEqual(self.values(2)[-2:], [b"b", b"c"])
        self.assertEqual(self.values(0)[-1:], [b"d"])
        self.assertRaises(InvalidMessage, self.producer.send, "t", Message(b"e"), 3)

    def test_a_batch_without_an_answer_is_sent_again(self) -> None:
        """Messages may come twice then, in order, and none is missing."""
        lost = 0

        def lose(request: Any) -> None:
            nonlocal lost
            if isinstance(request, ProduceAck) and self.broker.count(ProduceAck) % 3 == 0:
                lost += 1
                (part,) = request.parts
                self.broker.topics["t"].logs[1].data += part.message_set
                raise ConnectionResetError("reset by a test")

        self.broker.before = lose
        values = self.send(500)
        self.assertGreater(lost, 3)
        self.assertEqual(list(dict.fromkeys(self.values(1))), values)
        self.assertGreater(len(self.values(1)), 500)

    def refuse(self, error: int, times: int) -> None:
        """Have the broker refuse ``times`` times."""

        def before(request: Any) -> Any:
            nonlocal times
            if isinstance(request, ProduceAck) and times:
                times -= 1
                return ProduceAckResponse(tuple(ProducedPart("t", part.partition, error) for part in request.parts))
            return None

        self.broker.before = before

    def test_a_passing_refusal_is_tried_again(self) -> None:
        """The broker is told that this is a restart, or it would go on refusing the partition."""
        self.refuse(StorageFull.code, 3)
        self.assertEqual(self.send(10), self.values(1))
        restarts = [each.parts[0].restart for each in self.broker.requests if isinstance(each, ProduceAck)]
        self.assertEqual(restarts, [False, True, True, True])

    def test_an_error_names_the_refused_batch(self) -> None:
        """Of several, a lasting refusal comes first."""
        refusals = {0: StorageFull.code, 1: MessageTooLarge.code, 2: StorageFull.code}

        def before(request: Any) -> Any:
            if not isinstance(request, ProduceAck):
                return None
            return ProduceAckResponse(
                tuple(ProducedPart("t", part.partition, refusals[part.partition]) for part in request.parts)
            )

        self.broker.before = before
        for partition in range(3):
            self.producer.send("t", Message(b"x" * (partition + 1)), partition)
        failed = self.assertRaises(DeliveryFailed, self.producer.flush)
        self.assertIn("topic 't', partition 1: 1 message not delivered", str(failed))
        self.assertIsInstance(failed.__cause__, MessageTooLarge)

    def test_a_lasting_refusal_fails_at_once(self) -> None:
        """One that may pass fails when patience is over; both name the partition."""
        self.refuse(MessageTooLarge.code, 1)
        failed = self.assertRaises(DeliveryFailed, self.send, 3)
        self.assertIsInstance(failed.__cause__, MessageTooLarge)
        self.assertIn("topic 't', partition 1", str(failed))
        self.assertEqual(self.broker.slept, [])
        self.refuse(StorageFull.code, 1000)
        failed = self.assertRaises(DeliveryFailed, self.producer.flush)
        self.assertIsInstance(failed.__cause__, StorageFull)
        self.assertLessEqual(sum(self.broker.slept), 10.0)

    def test_a_topic_of_0_7_takes_plain_messages(self) -> None:
        """A key, a time, a header or zstd is an error that names the setting, before anything is sent."""
        self.broker.topics["t"].message_format = "0.7"
        values = self.send(3)
        self.assertEqual(self.values(1), values)
        for message in (Message(b"x", key=b"k"), Message(b"x", timestamp=5), Message(b"x", headers=[("a", None)])):
            with self.assertRaisesRegex(InvalidMessage, "cannot be sent to topic 't': it has message.format = 0.7"):
                self.producer.send("t", message)
        zstd = ExecutorProducer(self.broker.cluster(retry_timeout=10.0), compression="zstd")
        with self.assertRaisesRegex(InvalidMessage, "compressed with zstd"):
            zstd.send("t", Message(b"x"))
