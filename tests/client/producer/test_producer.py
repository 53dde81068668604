"""Tests of logd.client.producer.producer and its parts, against a broker in memory and on a clock turned by hand."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError

from logd.client.producer.partitioner import KeyedPartitioner
from logd.client.producer.pending_send import Sent
from logd.errors import (
    InvalidTopic,
    MessageTooLarge,
    StorageFull,
    WrongPartition,
)
from logd.protocol.loops import decode_set
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.producers import ProducerTestCase


class SendTests(ProducerTestCase):
    """The arguments of ``send`` and its result."""

    def test_sent_gives_the_place_of_its_own_set(self) -> None:
        """The first id and the id after the last are those of this set alone, though it shared a batch."""
        producer = self.producer()
        first, second = producer.send("t", [b"a", b"bb"]), producer.send("t", b"ccc")
        self.assertEqual(self.result(first), Sent("t", 0, 0, 21))
        self.assertEqual(self.result(second), Sent("t", 0, 21, 33))
        self.assertEqual(self.sets(), [3])

    def test_send_takes_messages_in_every_form(self) -> None:
        """A message, bytes, a message set, a list and an iterator are taken."""
        producer = self.producer()
        forms: tuple[Any, ...] = (Message(b"1"), b"2", MessageSet([Message(b"3")]), [b"4", Message(b"5")], iter([b"6"]))
        for messages in forms:
            producer.send("t", messages)
        self.run_for()
        self.assertEqual(self.log.payloads(), [b"1", b"2", b"3", b"4", b"5", b"6"])

    def test_send_refuses_text_as_a_message(self) -> None:
        """Text has no bytes before it is encoded, and the application knows the encoding."""
        self.assertRaises(TypeError, self.producer().send, "t", ["text"])

    def test_an_empty_set_is_sent_at_once(self) -> None:
        """The result has no ids, and no broker is asked."""
        self.assertEqual(self.successResultOf(self.producer().send("t", [])), Sent("t", -1))

    def test_the_key_of_bytes_becomes_the_messages_key(self) -> None:
        """A consumer gets it with the message."""
        self.result(self.producer().send("t", b"v", key=b"k"))
        self.assertEqual(decode_set(bytes(self.log.data)).messages[0].key, b"k")

    def test_the_first_send_creates_its_topic(self) -> None:
        """Sends meanwhile keep their order."""
        producer = self.producer()
        for payload in (b"1", b"2", b"3"):
            producer.send("new", payload)
        self.run_for()
        self.assertEqual(self.broker.logs["new"][0].payloads(), [b"1", b"2", b"3"])

    def test_a_bad_topic_name_fails_at_once(self) -> None:
        """The broker would refuse it in any case."""
        self.failureResultOf(self.producer().send("a/b", b""), InvalidTopic)

    def test_a_missing_partition_fails(self) -> None:
        """A wrong number is the application's mistake, so the send does not wait for it to appear."""
        sending = self.producer().send("t", b"", partition=3)
        self.run_for()
        self.failureResultOf(sending, WrongPartition)

    def test_a_partition_that_is_no_number_fails(self) -> None:
        """The error names the type, and later sends to the partition that it equals are delivered."""
        wrong: Any
        producer = self.producer()
        for wrong in (0.0, "0", b"0"):
            sending = producer.send("t", b"", partition=wrong)
            self.run_for()
            error = self.failureResultOf(sending, TypeError).value
            self.assertIn(f"a whole number, not {type(wrong).__name__}", str(error))
        sending = producer.send("t", b"", partition=0)
        self.run_for()
        self.assertEqual(self.successResultOf(sending).partition, 0)

    def test_a_new_producer_makes_no_connection(self) -> None:
        """Making one cannot fail or wait."""
        self.producer()
        self.run_for()
        self.assertEqual(self.broker.connections, [])


class PartitionTests(ProducerTestCase):
    """The partitions to which messages go."""

    def setUp(self) -> None:
        """Make a topic of three partitions."""
        super().setUp()
        self.logs = self.broker.add("p", 3)

    def test_each_message_goes_by_its_own_key(self) -> None:
        """A set is split, in order within each partition, and Sent names every part."""
        messages = [Message(b"%d" % number, key=b"%d" % (number % 5)) for number in range(50)]
        sent = self.result(self.producer().send("p", MessageSet(messages)))
        keyed = KeyedPartitioner()
        for number, log in self.logs.items():
            mine = [m.payload for m in messages if keyed.choose("p", m.key, (0, 1, 2)) == number]
            self.assertEqual(log.payloads(), mine)
        self.assertEqual(
            sorted((part.partition, part.first_id, part.next_position) for part in sent.parts),
            [(number, 0, log.end) for number, log in self.logs.items() if log.end],
        )

    def test_a_key_for_the_set_overrides_those_of_messages(self) -> None:
        """All of it goes to one partition."""
        sent = self.result(self.producer().send("p", [Message(b"a"), Message(b"b", key=b"x")], key=b"k"))
        self.assertEqual(sent.partition, KeyedPartitioner().choose("p", b"k", (0, 1, 2)))
        self.assertEqual(len(self.logs[sent.partition].payloads()), 2)

    def test_a_function_can_choose_the_partition(self) -> None:
        """The function is called with topic, key and partitions."""
        asked: list[Any] = []

        def choose(topic: str, key: bytes | None, partitions: Any) -> int:
            asked.append((topic, key, tuple(partitions)))
            return 2

        self.assertEqual(self.result(self.producer(partitioner=choose).send("p", b"")).partition, 2)
        self.assertEqual(asked, [("p", None, (0, 1, 2))])

    def test_a_failing_function_fails_its_send(self) -> None:
        """The sender sees what the function raised, and the next send is not harmed."""
        producer = self.producer(partitioner=lambda topic, key, partitions: 1 // len(key or b""))
        sending = producer.send("p", b"")
        self.run_for()
        self.failureResultOf(sending, ZeroDivisionError)
        self.assertEqual(self.result(producer.send("p", b"", partition=1)).partition, 1)

    def test_a_send_made_by_a_callback_comes_last(self) -> None:
        """The callback runs while sends that waited for metadata are given their partitions."""

        def choose(topic: str, key: bytes | None, partitions: Any) -> int:
            return 0 if key is None else -1

        producer = self.producer(partitioner=choose)
        failing = producer.send("p", b"1", key=b"bad")
        failing.addErrback(lambda _: producer.send("p", b"3"))
        producer.send("p", b"2")
        self.result(failing)
        self.assertEqual(self.logs[0].payloads(), [b"2", b"3"])

    def test_a_producer_works_behind_a_load_balancer(self) -> None:
        """With discover=False it reads no metadata, uses one address, and lets the broker pick the partition."""
        producer = self.producer(discover=False)
        self.assertEqual(self.result(producer.send("p", Message(b"a", key=b"k"))), Sent("p", 0, 0, 25))
        self.assertFalse([request for request in self.broker.requests if isinstance(request, Metadata)])
        (request,) = self.broker.requests
        self.assertEqual(request.parts[0].partition, -1)


class BatchTests(ProducerTestCase):
    """The batches in which sets travel."""

    def test_a_batch_lingers_for_more_messages(self) -> None:
        """The batch leaves when the time is over, with a second message in it."""
        producer = self.producer(linger=0.05)
        producer.send("t", b"1")
        self.run_for(0.04)
        producer.send("t", b"2")
        self.assertEqual(self.sets(), [])
        self.run_for(0.02)
        self.assertEqual(self.sets(), [2])

    def test_flush_sends_at_once(self) -> None:
        """The Deferred of flush fires when all is acknowledged."""
        producer = self.producer(linger=10.0)
        sending = producer.send("t", b"1")
        self.run_for()
        order: list[str] = []
        sending.addCallback(lambda _: order.append("sent"))
        producer.flush().addCallback(lambda _: order.append("flushed"))
        self.run_for()
        self.assertEqual(order, ["sent", "flushed"])

    def test_flush_hurries_sends_without_a_batch(self) -> None:
        """Sends that wait for metadata or for room do not linger later, either."""
        producer = self.producer(linger=10.0, buffer_bytes=30)
        for _ in range(4):
            producer.send("t", b"x" * 30)
        flushed = producer.flush()
        self.run_for()
        self.successResultOf(flushed)

    def test_flush_does_not_wait_for_later_sends(self) -> None:
        """A producer in constant use would never be flushed otherwise."""
        producer = self.producer(max_in_flight=1, batch_messages=1)
        producer.send("t", b"1")
        self.run_for(0.0025)
        flushed = producer.flush()
        for _ in range(100):
            producer.send("t", b"2")
        self.run_for(0.003)
        self.successResultOf(flushed)
        self.assertGreater(producer.buffered_bytes, 0)

    def test_a_batch_is_bounded_in_messages(self) -> None:
        """A set that would exceed the bound begins the next batch; one larger than the bound goes alone."""
        producer = self.producer(batch_messages=3, linger=1.0)
        for count in (2, 2, 1, 5):
            producer.send("t", [b""] * count)
        self.run_for(0.1)
        self.assertEqual(self.sets(), [2, 3, 5])

    def test_a_batch_is_bounded_in_bytes(self) -> None:
        """A set that would exceed the bound begins the next batch."""
        producer = self.producer(batch_bytes=100, linger=1.0)
        for _ in range(5):
            producer.send("t", b"x" * 31)
        self.run_for(0.1)
        self.assertEqual(self.sets(), [2, 2])

    def test_a_set_above_batch_bytes_is_split(self) -> None:
        """The Sent of the whole set names all parts."""
        sent = self.result(self.producer(batch_bytes=100).send("t", [b"%02d" % n * 10 for n in range(10)]))
        self.assertEqual(self.log.payloads(), [b"%02d" % n * 10 for n in range(10)])
        self.assertTrue(all(count <= 3 for count in self.sets()), self.sets())
        self.assertEqual((sent.parts[0].first_id, sent.parts[-1].next_position), (0, self.log.end))

    def test_one_message_too_large_fails_its_set(self) -> None:
        """Nothing of the set is sent."""
        producer = self.producer(message_bytes=50, batch_bytes=60)
        sending = producer.send("t", [b"fits", b"x" * 51])
        self.run_for()
        self.failureResultOf(sending, MessageTooLarge)
        self.result(producer.send("t", b"x" * 50))
        self.assertEqual((self.log.payloads(), producer.buffered_bytes), ([b"x" * 50], 0))

    def test_the_producers_compression_is_for_whole_batches(self) -> None:
        """A batch of several sends becomes one wrapper; a set with a compression of its own is one by itself."""
        producer = self.producer(compression="zstd")
        sends = [producer.send("t", [b"a" * 1000]) for _ in range(3)]
        own = producer.send("t", MessageSet([Message(b"b" * 1000)], "gzip"))
        self.run_for()
        self.assertEqual(len({self.successResultOf(send) for send in sends}), 1)
        self.successResultOf(own)
        self.assertLess(self.log.end, 300)
        self.assertEqual(self.log.payloads(), [b"a" * 1000] * 3 + [b"b" * 1000])
        self.assertEqual([self.log.data[5] & 3, len(self.log.boundaries())], [3, 3])

    def test_a_wrapper_that_gains_nothing_is_not_made(self) -> None:
        """The batch stays plain where it would be no smaller compressed."""
        self.result(self.producer(compression="gzip").send("t", b"x"))
        self.assertEqual(bytes(self.log.data[:5]), b"\0\0\0\x06\0")

    def test_partitions_of_one_broker_share_a_request(self) -> None:
        """A request for each would cost both sides more than small messages do."""
        self.broker.add("p", 3)
        producer = self.producer()
        for number in range(3):
            producer.send("p", b"x", partition=number)
        self.run_for()
        (request,) = [each for each in self.broker.requests if isinstance(each, ProduceAck)]
        self.assertEqual(len(request.parts), 3)


class CancelTests(ProducerTestCase):
    """Sends that are cancelled."""

    def test_a_lingering_send_is_taken_back(self) -> None:
        """The room of the send is given back, and the rest of its batch is sent."""
        producer = self.producer(linger=1.0)
        self.run_for()
        first, second = producer.send("t", b"1"), producer.send("t", b"2")
        self.run_for(0.1)
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.assertEqual(self.result(second, 2.0), Sent("t", 0, 0, 10))
        self.assertEqual((self.log.payloads(), producer.buffered_bytes), ([b"2"], 0))

    def test_every_piece_of_a_split_set_is_taken_back(self) -> None:
        """Several pieces may share a batch."""
        producer = self.producer(linger=1.0, batch_bytes=100, max_in_flight=1)
        producer.send("t", b"first", partition=0)
        producer.flush()
        self.run_for(0.0035)
        sending = producer.send("t", [b"x" * size for size in (51, 41, 21, 71)])
        sending.cancel()
        self.failureResultOf(sending, CancelledError)
        flushed = producer.flush()
        self.run_for()
        self.successResultOf(flushed)
        self.assertEqual(producer.buffered_bytes, 0)

    def test_a_batch_without_sends_is_not_sent(self) -> None:
        """Cancelling the only send of a batch leaves nothing to store."""
        producer = self.producer(linger=1.0)
        only = producer.send("t", b"1")
        self.run_for(0.1)
        only.cancel()
        self.failureResultOf(only, CancelledError)
        self.run_for(2.0)
        self.assertEqual(self.sets(), [])

    def test_a_send_that_waits_for_metadata_is_forgotten(self) -> None:
        """The message is in no batch yet, so it can simply be dropped."""
        producer = self.producer()
        only = producer.send("t", b"1")
        only.cancel()
        self.failureResultOf(only, CancelledError)
        self.run_for()
        self.assertEqual((self.log.payloads(), producer.buffered_bytes), ([], 0))

    def test_a_refused_set_is_sent_again_all_the_same(self) -> None:
        """The set may be in the log already, so cancelling ends the waiting alone."""
        answers: list[Any] = [StorageFull("full")]
        self.broker.refuse = lambda part: answers.pop() if answers else None
        producer = self.producer()
        self.run_for()
        sending = producer.send("t", b"1")
        self.run_for(0.01)
        self.assertEqual(answers, [])
        sending.cancel()
        self.failureResultOf(sending, CancelledError)
        self.run_for(1.0)
        self.assertEqual((self.log.payloads(), producer.buffered_bytes), ([b"1"], 0))

    def test_a_send_under_way_is_delivered_all_the_same(self) -> None:
        """Cancelling ends the waiting alone."""
        producer = self.producer()
        self.result(producer.send("t", b"0"))
        sending = producer.send("t", b"1")
        self.clock.advance(0)
        sending.cancel()
        self.failureResultOf(sending, CancelledError)
        self.run_for()
        self.assertEqual((self.log.payloads(), producer.buffered_bytes), ([b"0", b"1"], 0))
