"""Tests of Producer.send_set: sets that move from one log to another with the bytes that they have."""

from __future__ import annotations

from twisted.internet.defer import CancelledError

from logd.errors import ConfigurationError, InvalidMessage, MessageTooLarge, WireError
from logd.protocol import loops
from logd.protocol.batch import encode_batch
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.produce_ack import ProducePart
from tests.client.producers import ProducerTestCase


def of(*payloads: bytes) -> bytes:
    """Return a set of these messages."""
    return loops.encode_set([Message(payload) for payload in payloads])


class SendSetTests(ProducerTestCase):
    """``send_set``."""

    def test_the_bytes_are_stored_as_they_are_and_placed_exactly(self) -> None:
        """Several sets that travel in one request, of entries and batches."""
        producer = self.producer()
        sets = [of(b"a", b"bb"), encode_batch([Message(b"c")]), of(b"d")]
        sending = [producer.send_set("t", 0, each) for each in sets]
        at = 0
        for each, data in zip(sending, sets, strict=True):
            sent = self.result(each)
            self.assertEqual((sent.partition, sent.first_id, sent.next_position), (0, at, at + len(data)))
            at += len(data)
        self.assertEqual(bytes(self.log.data), b"".join(sets))

    def test_nothing_passes_a_set_that_is_refused(self) -> None:
        """For whatever reason it is refused, and for longer than delivery_timeout; other partitions go on."""
        self.broker.add("t", 2)
        self.log = self.broker.logs["t"][0]
        errors: list[WireError] = [MessageTooLarge("no"), InvalidMessage("no")]
        for form in ("plain", "batch"):
            refusing: list[WireError | None] = [errors.pop()]

            def refuse(part: ProducePart, refusing: list[WireError | None] = refusing) -> WireError | None:
                return refusing[0] if part.partition == 0 and b"bad" in part.message_set else None

            self.broker.refuse = refuse
            producer = self.producer(format=form, batch_bytes=20, delivery_timeout=5.0, retry_delay_limit=1.0)
            before = bytes(self.log.data)
            sending = [producer.send_set("t", 0, of(each)) for each in (b"bad", b"next", b"last")]
            other = producer.send_set("t", 1, of(b"other"))
            self.run_for(20.0)
            self.successResultOf(other)
            for each in sending:
                self.assertNoResult(each)
            self.assertEqual(bytes(self.log.data), before)
            self.assertIsInstance(producer.trouble("t", 0), type(refusing[0]))
            self.assertIsNone(producer.trouble("t", 1))
            refusing[0] = None
            self.run_for(5.0)
            for each in sending:
                self.successResultOf(each)
            self.assertEqual(bytes(self.log.data), before + of(b"bad", b"next", b"last"))
            self.assertIsNone(producer.trouble("t", 0))

    def test_sets_do_not_share_batches_with_messages(self) -> None:
        """Messages keep their deadline, and their order with sets."""
        producer = self.producer(linger=0.01, compression="gzip")
        producer.send("t", [b"0", b"1"])
        producer.send_set("t", 0, of(b"2"))
        producer.send("t", [b"3", b"4"])
        self.run_for()
        self.assertEqual(self.log.payloads(), [b"0", b"1", b"2", b"3", b"4"])

    def test_a_cancelled_set_does_not_leave(self) -> None:
        """The sets behind it do."""
        producer = self.producer(linger=0.01)
        first, second = producer.send_set("t", 0, of(b"1")), producer.send_set("t", 0, of(b"2"))
        self.run_for(0.005)
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.result(second)
        self.assertEqual(self.log.payloads(), [b"2"])
        self.assertEqual(producer.buffered_bytes, 0)

    def test_a_batch_whose_sends_are_all_cancelled_does_not_leave(self) -> None:
        """A broker refuses a set without messages, and nothing would pass it."""
        sets: list[bytes] = []

        def note(part: ProducePart) -> None:
            sets.append(bytes(part.message_set))

        self.broker.refuse = note
        producer = self.producer(linger=0.01)
        compressed = [MessageSet([Message(b"%d" % number) for number in range(9)], "gzip")] * 2
        for kind in ("given", "compressed"):
            cancelled = [
                producer.send_set("t", 0, of(b"a")) if kind == "given" else producer.send("t", each)
                for each in compressed
            ]
            self.run_for(0.005)
            for sending in cancelled:
                sending.cancel()
                self.failureResultOf(sending, CancelledError)
            self.clock.advance(0)
            self.assertEqual(producer.buffered_bytes, 0)
            self.run_for(1.0)
        self.assertEqual(sets, [])
        self.result(producer.send_set("t", 0, of(b"c")))
        self.assertEqual(self.log.payloads(), [b"c"])

    def test_a_batch_has_room_for_others_in_place_of_a_cancelled_set(self) -> None:
        """All its messages are counted no more."""
        sets: list[bytes] = []

        def note(part: ProducePart) -> None:
            sets.append(bytes(part.message_set))

        self.broker.refuse = note
        producer = self.producer(linger=0.01, batch_messages=12)
        nine = MessageSet([Message(b"%d" % number) for number in range(9)], "gzip")
        cancelled, other = producer.send("t", nine), producer.send("t", MessageSet([Message(b"x")], "gzip"))
        self.run_for(0.005)
        cancelled.cancel()
        self.failureResultOf(cancelled, CancelledError)
        self.clock.advance(0)
        last = producer.send("t", nine)
        self.result(other)
        self.result(last)
        self.assertEqual(len(sets), 1)
        self.assertEqual(producer.buffered_bytes, 0)

    def test_a_missing_topic_is_waited_for(self) -> None:
        """With create_topics=False nothing is made; the set leaves once the topic is there."""
        producer = self.producer(create_topics=False)
        sending = producer.send_set("new", 0, of(b"1"))
        self.run_for(2.0)
        self.assertNoResult(sending)
        self.assertNotIn("new", self.broker.logs)
        self.assertIsNotNone(producer.trouble("new", 0))
        self.broker.add("new")
        self.run_for(10.0)
        self.successResultOf(sending)

    def test_acks_0_is_refused(self) -> None:
        """Nobody would know whether the set was stored."""
        self.assertRaises(ConfigurationError, self.producer(acks=0).send_set, "t", 0, of(b"1"))
