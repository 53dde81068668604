"""Tests of logd.client.producer.producer and its parts, against a broker in memory and a clock that stands still."""

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
from tests.client.producers import ProducerCase


class SendTests(ProducerCase):
    """What send takes, and what it fires with."""

    def test_tells_the_place(self) -> None:
        """The first id and the id after the last are those of this set alone, though it shared a batch."""
        producer = self.producer()
        first, second = producer.send("t", [b"a", b"bb"]), producer.send("t", b"ccc")
        self.assertEqual(self.result(first), Sent("t", 0, 0, 21))
        self.assertEqual(self.result(second), Sent("t", 0, 21, 33))
        self.assertEqual(self.sets(), [3])

    def test_takes_messages_in_every_form(self) -> None:
        """A message, bytes, a set, a list and a generator of either."""
        producer = self.producer()
        forms: tuple[Any, ...] = (Message(b"1"), b"2", MessageSet([Message(b"3")]), [b"4", Message(b"5")], iter([b"6"]))
        for messages in forms:
            producer.send("t", messages)
        self.run_for()
        self.assertEqual(self.log.payloads(), [b"1", b"2", b"3", b"4", b"5", b"6"])

    def test_refuses_what_is_no_message(self) -> None:
        """Text is not bytes."""
        self.assertRaises(TypeError, self.producer().send, "t", ["text"])

    def test_empty_set(self) -> None:
        """Nothing to send is sent at once."""
        self.assertEqual(self.successResultOf(self.producer().send("t", [])), Sent("t", -1))

    def test_key_of_bytes(self) -> None:
        """For a payload given as bytes, the key is the message's key."""
        self.result(self.producer().send("t", b"v", key=b"k"))
        self.assertEqual(decode_set(bytes(self.log.data)).messages[0].key, b"k")

    def test_creates_topics(self) -> None:
        """A topic that does not exist is made by the first send to it; sends meanwhile keep their order."""
        producer = self.producer()
        for payload in (b"1", b"2", b"3"):
            producer.send("new", payload)
        self.run_for()
        self.assertEqual(self.broker.logs["new"][0].payloads(), [b"1", b"2", b"3"])

    def test_bad_topic_name(self) -> None:
        """A name that no topic can have fails at once."""
        self.failureResultOf(self.producer().send("a/b", b""), InvalidTopic)

    def test_missing_partition(self) -> None:
        """A partition that the topic does not have fails, and does not wait for it to appear."""
        sending = self.producer().send("t", b"", partition=3)
        self.run_for()
        self.failureResultOf(sending, WrongPartition)

    def test_connects_only_when_needed(self) -> None:
        """Making a producer makes no connection."""
        self.producer()
        self.run_for()
        self.assertEqual(self.broker.connections, [])


class PartitionTests(ProducerCase):
    """Where messages go."""

    def setUp(self) -> None:
        """A topic of three partitions."""
        super().setUp()
        self.logs = self.broker.add("p", 3)

    def test_each_message_by_its_key(self) -> None:
        """A set of messages with keys is split, in order within each partition; Sent names every part."""
        messages = [Message(b"%d" % number, key=b"%d" % (number % 5)) for number in range(50)]
        sent = self.result(self.producer().send("p", MessageSet(messages)))
        keyed = KeyedPartitioner()
        for number, log in self.logs.items():
            mine = [m.payload for m in messages if keyed.choose("p", m.key, (0, 1, 2)) == number]
            self.assertEqual(log.payloads(), mine)
        self.assertEqual(
            sorted((part.partition, part.first_id, part.next_id) for part in sent.parts),
            [(number, 0, log.end) for number, log in self.logs.items() if log.end],
        )

    def test_a_key_for_the_set(self) -> None:
        """With a key of the set all of it goes to one partition."""
        sent = self.result(self.producer().send("p", [Message(b"a"), Message(b"b", key=b"x")], key=b"k"))
        self.assertEqual(sent.partition, KeyedPartitioner().choose("p", b"k", (0, 1, 2)))
        self.assertEqual(len(self.logs[sent.partition].payloads()), 2)

    def test_a_function_decides(self) -> None:
        """A function of the application's own is asked with topic, key and partitions."""
        asked: list[Any] = []

        def choose(topic: str, key: bytes | None, partitions: Any) -> int:
            asked.append((topic, key, tuple(partitions)))
            return 2

        self.assertEqual(self.result(self.producer(partitioner=choose).send("p", b"")).partition, 2)
        self.assertEqual(asked, [("p", None, (0, 1, 2))])

    def test_a_failing_function_fails_its_send(self) -> None:
        """What the partitioner raises is the sender's to see, and the next send is not harmed."""
        producer = self.producer(partitioner=lambda topic, key, partitions: 1 // len(key or b""))
        sending = producer.send("p", b"")
        self.run_for()
        self.failureResultOf(sending, ZeroDivisionError)
        self.assertEqual(self.result(producer.send("p", b"", partition=1)).partition, 1)

    def test_order_among_sends_that_make_sends(self) -> None:
        """A send made while those that waited for metadata are given their partitions comes behind them."""

        def choose(topic: str, key: bytes | None, partitions: Any) -> int:
            return 0 if key is None else -1

        producer = self.producer(partitioner=choose)
        failing = producer.send("p", b"1", key=b"bad")
        failing.addErrback(lambda _: producer.send("p", b"3"))
        producer.send("p", b"2")
        self.result(failing)
        self.assertEqual(self.logs[0].payloads(), [b"2", b"3"])

    def test_behind_a_load_balancer(self) -> None:
        """With discover=False no metadata is read, one address is used, and the broker picks the partition."""
        producer = self.producer(discover=False)
        self.assertEqual(self.result(producer.send("p", Message(b"a", key=b"k"))), Sent("p", 0, 0, 25))
        self.assertFalse([request for request in self.broker.requests if isinstance(request, Metadata)])
        (request,) = self.broker.requests
        self.assertEqual(request.parts[0].partition, -1)


class BatchTests(ProducerCase):
    """What travels together."""

    def test_linger(self) -> None:
        """With linger a batch waits for company, and leaves when the time is over."""
        producer = self.producer(linger=0.05)
        producer.send("t", b"1")
        self.run_for(0.04)
        producer.send("t", b"2")
        self.assertEqual(self.sets(), [])
        self.run_for(0.02)
        self.assertEqual(self.sets(), [2])

    def test_flush_does_not_linger(self) -> None:
        """flush sends at once, and fires when all is acknowledged."""
        producer = self.producer(linger=10.0)
        sending = producer.send("t", b"1")
        self.run_for()
        order: list[str] = []
        sending.addCallback(lambda _: order.append("sent"))
        producer.flush().addCallback(lambda _: order.append("flushed"))
        self.run_for()
        self.assertEqual(order, ["sent", "flushed"])

    def test_flush_hurries_what_is_in_no_batch_yet(self) -> None:
        """Nor do sends linger that waited for metadata or for room when flush was called."""
        producer = self.producer(linger=10.0, buffer_bytes=30)
        for _ in range(4):
            producer.send("t", b"x" * 30)
        flushed = producer.flush()
        self.run_for()
        self.successResultOf(flushed)

    def test_flush_does_not_wait_for_later_sends(self) -> None:
        """flush is about what was sent before it."""
        producer = self.producer(max_in_flight=1, batch_messages=1)
        producer.send("t", b"1")
        self.run_for(0.0025)
        flushed = producer.flush()
        for _ in range(100):
            producer.send("t", b"2")
        self.run_for(0.003)
        self.successResultOf(flushed)
        self.assertGreater(producer.buffered_bytes, 0)

    def test_count(self) -> None:
        """A batch takes no set that would make it more messages than allowed; a set that has more goes alone."""
        producer = self.producer(batch_messages=3, linger=1.0)
        for count in (2, 2, 1, 5):
            producer.send("t", [b""] * count)
        self.run_for(0.1)
        self.assertEqual(self.sets(), [2, 3, 5])

    def test_bytes(self) -> None:
        """A batch takes no set that would make it larger than allowed."""
        producer = self.producer(batch_bytes=100, linger=1.0)
        for _ in range(5):
            producer.send("t", b"x" * 31)
        self.run_for(0.1)
        self.assertEqual(self.sets(), [2, 2])

    def test_splits_a_large_set(self) -> None:
        """A set above batch_bytes travels in several, and its Sent names them all."""
        sent = self.result(self.producer(batch_bytes=100).send("t", [b"%02d" % n * 10 for n in range(10)]))
        self.assertEqual(self.log.payloads(), [b"%02d" % n * 10 for n in range(10)])
        self.assertTrue(all(count <= 3 for count in self.sets()), self.sets())
        self.assertEqual((sent.parts[0].first_id, sent.parts[-1].next_id), (0, self.log.end))

    def test_a_message_too_large(self) -> None:
        """One message above message_bytes fails its set, of which nothing is sent."""
        producer = self.producer(message_bytes=50, batch_bytes=60)
        sending = producer.send("t", [b"fits", b"x" * 51])
        self.run_for()
        self.failureResultOf(sending, MessageTooLarge)
        self.result(producer.send("t", b"x" * 50))
        self.assertEqual((self.log.payloads(), producer.buffered_bytes), ([b"x" * 50], 0))

    def test_compression(self) -> None:
        """The producer's compression is for whole batches, of several sends; a set's own is for that set alone."""
        producer = self.producer(compression="zstd")
        sends = [producer.send("t", [b"a" * 1000]) for _ in range(3)]
        own = producer.send("t", MessageSet([Message(b"b" * 1000)], "gzip"))
        self.run_for()
        self.assertEqual(len({self.successResultOf(send) for send in sends}), 1)
        self.successResultOf(own)
        self.assertLess(self.log.end, 300)
        self.assertEqual(self.log.payloads(), [b"a" * 1000] * 3 + [b"b" * 1000])
        self.assertEqual([self.log.data[5] & 3, len(self.log.boundaries())], [3, 3])

    def test_compression_that_gains_nothing(self) -> None:
        """Where a wrapper would be no smaller the batch stays plain."""
        self.result(self.producer(compression="gzip").send("t", b"x"))
        self.assertEqual(bytes(self.log.data[:5]), b"\0\0\0\x06\0")

    def test_partitions_share_requests(self) -> None:
        """Batches for several partitions of one broker travel in one request."""
        self.broker.add("p", 3)
        producer = self.producer()
        for number in range(3):
            producer.send("p", b"x", partition=number)
        self.run_for()
        (request,) = [each for each in self.broker.requests if isinstance(each, ProduceAck)]
        self.assertEqual(len(request.parts), 3)


class CancelTests(ProducerCase):
    """Cancelling a send."""

    def test_before_it_left(self) -> None:
        """What lingers is taken back, and gives its room back."""
        producer = self.producer(linger=1.0)
        self.run_for()
        first, second = producer.send("t", b"1"), producer.send("t", b"2")
        self.run_for(0.1)
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.assertEqual(self.result(second, 2.0), Sent("t", 0, 0, 10))
        self.assertEqual((self.log.payloads(), producer.buffered_bytes), ([b"2"], 0))

    def test_a_split_set(self) -> None:
        """Every piece of a set that was split is taken back, also where several share a batch."""
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

    def test_the_only_one_of_its_batch(self) -> None:
        """A batch that nobody wants any more is not sent."""
        producer = self.producer(linger=1.0)
        only = producer.send("t", b"1")
        self.run_for(0.1)
        only.cancel()
        self.failureResultOf(only, CancelledError)
        self.run_for(2.0)
        self.assertEqual(self.sets(), [])

    def test_while_the_topic_is_unknown(self) -> None:
        """A send whose topic is still looked for is forgotten."""
        producer = self.producer()
        only = producer.send("t", b"1")
        only.cancel()
        self.failureResultOf(only, CancelledError)
        self.run_for()
        self.assertEqual((self.log.payloads(), producer.buffered_bytes), ([], 0))

    def test_between_two_attempts(self) -> None:
        """A set that was refused and waits to be sent again may be there already: it is sent all the same."""
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

    def test_after_it_left(self) -> None:
        """Later it only stops the waiting: the set is delivered all the same."""
        producer = self.producer()
        self.result(producer.send("t", b"0"))
        sending = producer.send("t", b"1")
        self.clock.advance(0)
        sending.cancel()
        self.failureResultOf(sending, CancelledError)
        self.run_for()
        self.assertEqual((self.log.payloads(), producer.buffered_bytes), ([b"0", b"1"], 0))
