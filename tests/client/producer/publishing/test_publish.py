"""Tests of ``publish`` and ``ready``: messages without a Deferred for each, in both formats."""

from __future__ import annotations

from typing import Any

from logd.client.producer.single_messages import MOST_BUFFERS
from logd.errors import ClientClosed, InvalidTopic, MessageTooLarge, ProducerBufferFull
from logd.protocol.loops import decode_set
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.producers import PublishTestCase


class PublishTests(PublishTestCase):
    """``publish`` while all goes well."""

    def test_published_messages_arrive_in_order(self) -> None:
        """Those published before the topic is known come first; all travel in few sets."""
        producer = self.producer()
        for number in range(100):
            self.assertTrue(producer.publish("t", b"%d" % number))
            if number in (20, 60):
                self.run_for(0.01)
        self.flushed(producer)
        self.assertEqual(self.log.payloads(), [b"%d" % number for number in range(100)])
        self.assertLessEqual(len(self.sets()), 3)
        self.assertEqual((producer.buffered_bytes, self.told), (0, []))

    def test_a_published_message_may_have_every_field(self) -> None:
        """Key, time and headers come back; the partition is where it went."""
        logs = self.broker.add("p", 2)
        producer = self.producer()
        for _ in range(2):  # before and after the topic is known
            producer.publish("p", b"v", b"k", 5, [("h", b"w")], 1)
            producer.publish("p", None, b"k", partition=1)
            producer.publish("p", b"plain", partition=1)
            self.run_for()
        messages = decode_set(bytes(logs[1].data)).messages
        self.assertEqual([m.payload for m in messages], [b"v", None, b"plain"] * 2)
        self.assertEqual([(m.key, m.timestamp, m.headers) for m in messages[:2]],
                         [(b"k", 5, (("h", b"w"),)), (b"k", None, ())])  # fmt: skip
        self.assertEqual(logs[0].end, 0)

    def test_messages_with_keys_go_by_their_keys(self) -> None:
        """As with ``send``."""
        logs = self.broker.add("p", 3)
        producer = self.producer()
        for number in range(60):
            producer.publish("p", b"%d" % number, b"%d" % (number % 7))
            if number == 30:
                self.run_for()
        sent = [self.result(producer.send("p", b"s", key=b"%d" % key)).partition for key in range(7)]
        for partition, log in logs.items():
            keys = [key for key in range(7) if sent[key] == partition]
            found = [m.payload for m in decode_set(bytes(log.data)).messages if m.payload != b"s"]
            self.assertEqual(found, [b"%d" % number for number in range(60) if number % 7 in keys])

    def test_sent_and_published_messages_stay_in_order(self) -> None:
        """They share batches, and each send learns its own place."""
        producer = self.producer(linger=0.01)
        self.result(producer.send("t", b"first"))
        sends: list[Any] = []
        for number in range(40):
            payload = b"%03d" % number
            if number % 4 == 1:
                sends.append(producer.send("t", payload))
            elif number % 4 == 3:
                sends.append(producer.send("t", [payload, b"and " + payload]))
            else:
                producer.publish("t", payload)
        self.flushed(producer)
        messages = decode_set(bytes(self.log.data)).messages[1:]
        places = {m.payload: m for m in messages}
        for number, sending in zip([n for n in range(40) if n % 2], sends, strict=True):
            sent = self.successResultOf(sending)
            first = places[b"%03d" % number]
            last = places[b"and %03d" % number] if number % 4 == 3 else first
            self.assertEqual((sent.first_id, sent.next_position), (first.id, last.next_position))
        self.assertEqual(self.sets(), [1, 50])

    def test_a_batch_is_bounded_in_bytes_and_messages(self) -> None:
        """A published message that does not fit begins the next one."""
        producer = self.producer(batch_bytes=1000, linger=1.0)
        self.result(producer.send("t", b"x"), 1.2)
        for _ in range(30):
            producer.publish("t", bytes(100))
        self.run_for(1.2)
        sizes = [len(r.parts[0].message_set) for r in self.broker.requests if isinstance(r, ProduceAck)]
        self.assertEqual(len(self.log.payloads()), 31)
        self.assertTrue(all(500 < size <= 1000 for size in sizes[1:-1]), sizes)
        producer = self.producer(batch_messages=3, linger=10.0)
        for _ in range(7):
            producer.publish("t", b"y")
            self.run_for(0.01)
        self.assertEqual(self.sets()[-2:], [3, 3])

    def test_flush_hurries_published_messages(self) -> None:
        """They linger no longer, whether their topic was known or not."""
        producer = self.producer(linger=10.0)
        producer.publish("t", b"1")
        self.flushed(producer, 0.1)
        producer.publish("t", b"2")
        self.flushed(producer, 0.1)
        self.assertEqual(self.log.payloads(), [b"1", b"2"])

    def test_acks_0_takes_published_messages(self) -> None:
        """In batches, and one to a request."""
        for number, most in enumerate((10_000, 1)):
            producer = self.producer(acks=0, batch_messages=most)
            for each in range(20):
                self.assertTrue(producer.publish("t", b"%d" % each))
                if each == 5:
                    self.run_for(0.05)
            self.flushed(producer, 0.1)
            self.assertEqual(self.log.payloads()[number * 20 :], [b"%d" % each for each in range(20)])

    def test_a_bad_message_raises_and_is_not_taken(self) -> None:
        """It is the caller's mistake, known at once."""
        producer = self.producer(message_bytes=100)
        for _ in range(2):
            self.assertRaises(InvalidTopic, producer.publish, "a/b", b"")
            self.assertRaises(TypeError, producer.publish, "t", "text")
            self.assertRaises(ValueError, producer.publish, "t", None)
            self.assertRaises(MessageTooLarge, producer.publish, "t", bytes(101))
            self.assertRaises(MessageTooLarge, producer.publish, "t", bytes(90), b"k" * 20)
            producer.publish("t", bytes(100))
            self.run_for()
        self.assertEqual(len(self.log.payloads()), 2)
        self.assertEqual((producer.buffered_bytes, self.told), (0, []))


class FullTests(PublishTestCase):
    """``publish`` and ``ready`` when the buffer is full."""

    def test_publish_and_ready_agree_on_what_is_full(self) -> None:
        """After False ``ready`` has not fired, in any state: a loop that waits for it would never yield otherwise."""
        alone = {"acks": 0, "batch_messages": 1}
        for given_settings in (
            {},
            {"linger": 60.0},
            {"acks": 0},
            alone,
            {"batch_messages": 2},
        ):
            producer = self.producer(buffer_bytes=5000, **given_settings)
            turns = 0
            for number in range(150):
                if producer.publish("t", b"%100d" % number):
                    self.assertTrue(producer.has_room)
                    continue
                self.assertFalse(producer.has_room)
                waiting = producer.ready()
                self.assertNoResult(waiting)
                self.run_for(0.3)
                self.successResultOf(waiting)
                self.assertTrue(producer.has_room)
                turns += 1
            self.flushed(producer)
            if given_settings is not alone:  # whose messages leave at once
                self.assertGreater(turns, 3)
            self.assertEqual(self.log.payloads()[-150:], [b"%100d" % number for number in range(150)])

    def test_what_lingers_leaves_when_the_buffer_is_full(self) -> None:
        """Or it would take the room for as long as it lingers, of every topic."""
        self.broker.add("u")
        producer = self.producer(buffer_bytes=3000, linger=600.0)
        for topic in ("t", "u"):
            producer.publish(topic, b"warm")
        self.flushed(producer, 0.1)
        producer.publish("u", b"1")
        while producer.publish("t", bytes(100)):
            pass
        waiting = producer.ready()
        self.run_for(0.1)
        self.successResultOf(waiting)
        self.assertEqual(self.broker.logs["u"][0].payloads(), [b"warm", b"1"])

    def test_a_message_beyond_the_hard_bound_is_not_taken(self) -> None:
        """An application that never waits does not grow without end, and nothing that was taken is lost."""
        self.broker.silent = (ProduceAck,)
        for first in (b"known", None):
            producer = self.producer(buffer_bytes=10_000, linger=30.0)
            if first is None:
                self.broker.up = False
            else:
                producer.publish("t", first)
                self.run_for(0.1)
            taken = 0
            with self.assertRaises(ProducerBufferFull):
                for _ in range(1000):
                    producer.publish("t", bytes(100))
                    taken += 1
            self.assertGreater(taken, 50)
            self.assertLess(producer.buffered_bytes, MOST_BUFFERS * 10_000 + 300)
            self.broker.silent, self.broker.up = (), True
            self.broker.lose_all()
            before = len(self.log.payloads())
            self.flushed(producer, 3.0)
            self.assertGreaterEqual(len(self.log.payloads()) - before, taken)

    def test_published_messages_do_not_overtake_sends_that_wait(self) -> None:
        """A send that waits for room comes first, since it was called first; the bound holds for both."""
        producer = self.producer(buffer_bytes=3000)
        self.result(producer.send("t", b"warm"))
        for number in range(12):
            producer.send("t", b"s%d" % number + bytes(100))
            for part in b"ab":
                self.assertIn(producer.publish("t", b"p%d%c" % (number, part)), (True, False))
        self.flushed(producer)
        order = [(payload or b"").rstrip(b"\0") for payload in self.log.payloads()][1:]
        expected = [(b"s%d" % number, b"p%da" % number, b"p%db" % number) for number in range(12)]
        self.assertEqual(order, [payload for three in expected for payload in three])
        self.assertEqual(producer.buffered_bytes, 0)
        with self.assertRaises(ProducerBufferFull):
            for _ in range(1000):
                producer.send("t", bytes(2000))
                producer.publish("t", bytes(300))

    def test_a_closed_producer_takes_nothing_while_it_looks_for_the_topic(self) -> None:
        """The messages that wait for that leave then, and open a batch."""
        producer = self.producer(max_in_flight=1, batch_messages=3)
        for _ in range(20):
            producer.publish("t", b"early")
        producer.close(5.0)
        for _ in range(200):
            self.assertRaises(ClientClosed, producer.publish, "t", b"late")
            self.clock.advance(0.0001)

    def test_publishing_goes_on_after_close(self) -> None:
        """It raises, also where a batch was open."""
        producer = self.producer(linger=10.0)
        producer.publish("t", b"1")
        self.run_for(0.1)
        producer.publish("t", b"2")
        closing = producer.close()
        self.assertRaises(ClientClosed, producer.publish, "t", b"3")
        self.run_for(0.1)
        self.successResultOf(closing)
        self.assertEqual((self.log.payloads(), self.told), ([b"1", b"2"], []))


class PlainPublishTests(PublishTests):
    """The same with an entry for each message."""

    form = "plain"


class PlainFullTests(FullTests):
    """The same with an entry for each message."""

    form = "plain"
