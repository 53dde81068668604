"""Tests that messages join no open batch that is not theirs any longer, overtake nothing, and stay counted."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError

from logd.client.producer.pending_send import Sent
from logd.client.producer.single_messages import SEND_MEMORY
from logd.errors import InvalidMessage
from logd.protocol.loops import decode_set
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.message_size import RECORD_BYTES
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.producers import PublishTestCase


class ChangedTopicTests(PublishTestCase):
    """A topic whose description has changed while batches are open."""

    def payloads(self, key: bytes | None = None) -> dict[int, list[bytes]]:
        """Return the payloads of each partition that has any, of one key or of all."""
        found = {
            number: [m.payload or b"" for m in decode_set(bytes(log.data)).messages if key is None or m.key == key]
            for number, log in self.logs.items()
        }
        return {number: payloads for number, payloads in found.items() if payloads}

    def test_no_message_of_a_key_goes_back_to_its_former_partition(self) -> None:
        """A set, or a send that has waited, takes the new partition without an open batch: single messages follow."""
        self.logs = self.broker.add("p", 2)
        producer = self.producer(linger=10.0, metadata_age=0.5)
        for number in range(20):
            producer.publish("p", b"1", b"%d" % number)
        self.run_for(0.1)
        for number in range(2, 5):
            self.logs[number] = type(self.logs[0])()
        self.run_for(2.0)
        for number in range(20):
            key = b"%d" % number
            producer.send("p", [Message(b"2", key=key), Message(b"3", key=key)])
            producer.publish("p", b"4", key)
            producer.send("p", b"5", key=key)
        self.flushed(producer)
        moved = 0
        for number in range(20):
            former, *new = sorted(self.payloads(b"%d" % number).values())
            moved += bool(new)
            self.assertIn([former, *new], ([[b"1", b"2", b"3", b"4", b"5"]], [[b"1"], [b"2", b"3", b"4", b"5"]]))
        self.assertGreater(moved, 5)

    def test_a_topic_that_takes_only_0_7_now_gets_no_key_into_its_open_batch(self) -> None:
        """Its brokers would refuse the plain messages with it."""
        self.logs = {0: self.log}
        producer = self.producer(linger=10.0, metadata_age=0.5)
        first = producer.send("t", b"first")
        self.flushed(producer)
        self.successResultOf(first)
        sending = producer.send("t", b"plain", partition=0)
        self.run_for(0.1)
        self.broker.formats["t"] = "0.7"
        self.broker.refuse = self.refuse_more_than_payloads
        self.run_for(2.0)
        producer.publish("t", b"x", b"k", partition=0)
        self.failureResultOf(producer.send("t", b"x", key=b"k", partition=0), InvalidMessage)
        self.run_for(15.0)
        self.assertEqual([type(error) for _, _, error in self.told], [InvalidMessage])
        self.successResultOf(sending)
        self.assertEqual(self.payloads(), {0: [b"first", b"plain"]})

    @staticmethod
    def refuse_more_than_payloads(part: Any) -> InvalidMessage | None:
        """Refuse all that 0.7 cannot read."""
        plain = all(message == Message(message.payload or b"") for message in decode_set(part.message_set).messages)
        return None if plain else InvalidMessage("not of 0.7")

    def test_a_key_that_is_not_bytes_fails_the_send(self) -> None:
        """With an open batch as well."""
        producer = self.producer(linger=10.0)
        for _ in range(2):
            self.failureResultOf(self.sent(producer, "text"), TypeError)
            producer.publish("t", b"v", b"k")
            self.run_for()
        self.flushed(producer)

    def sent(self, producer: Any, key: Any) -> Any:
        """Send a message by a key."""
        sending = producer.send("t", Message(b"x"), key=key)
        self.run_for()
        return sending


class PlainChangedTopicTests(ChangedTopicTests):
    """The same with an entry for each message."""

    form = "plain"


class ToldTests(PublishTestCase):
    """An application that sends or publishes again when it is told of something."""

    def test_nothing_overtakes_what_waits_for_metadata(self) -> None:
        """Messages leave their wait one after another; one that is given meanwhile goes behind the last of them."""
        producer = self.producer(linger=0.05)
        producer.publish("t", b"1", b"k")
        refused = producer.send("t", b"x", partition=9)
        refused.addErrback(lambda _: producer.publish("t", b"4", b"k"))
        producer.publish("t", b"2", b"k")
        producer.send("t", b"3", key=b"k")
        self.flushed(producer)
        self.assertEqual(self.log.payloads(), [b"1", b"2", b"3", b"4"])

    def test_nothing_overtakes_what_was_published_before(self) -> None:
        """One of the messages that were published before the topic was known fails, and on_error publishes another."""
        producer = self.producer(linger=0.05)
        producer.on_error = lambda *_: producer.publish("t", b"3", b"k")
        producer.publish("t", b"1", b"k")
        producer.publish("t", b"x", partition=9)
        producer.publish("t", b"2", b"k")
        flushing = producer.flush()
        self.run_for(1.0)
        self.failureResultOf(flushing)
        self.assertEqual(self.log.payloads(), [b"1", b"2", b"3"])


class TakenBackTests(PublishTestCase):
    """Sends that are taken back, refused or exchanged leave no memory counted, and nothing that waits forever."""

    def test_memory_is_counted_when_taking_one_back_lets_another_in(self) -> None:
        """Those who wait for fewer sends may be told while a send is taken out of its batch."""
        producer = self.producer(linger=0.05)
        producer.publish("t", b"first", b"k")
        self.flushed(producer)
        sends = [producer.send("t", b"v", key=b"k") for _ in range(4100)]
        for _ in range(3):
            producer.ready().addCallback(lambda _: producer.send("t", b"new" * 50, key=b"k"))
        for sending in sends[:1000]:
            sending.addErrback(lambda failure: failure.trap(CancelledError))
            sending.cancel()
        self.flushed(producer)
        self.assertEqual(producer.buffered_bytes, 0)
        self.assertEqual(len(self.log.payloads()), 3104)
        self.assertIsInstance(self.successResultOf(sends[-1]), Sent)

    def test_memory_is_counted_when_a_set_is_refused_for_its_compression(self) -> None:
        """By a topic that takes only what 0.7 can read, to which nothing was sent yet."""
        self.broker.formats["t"] = "0.7"
        producer = self.producer(compression="zstd")
        for messages in ([b"1", b"2"], b"3", [b"4"], MessageSet((Message(b"5"),) * 2, "gzip")):
            for _ in range(3):
                sending = producer.send("t", messages)
                self.run_for()
                self.failureResultOf(sending, InvalidMessage)
                self.assertEqual(producer.buffered_bytes, 0)

    def test_a_change_of_format_lets_waiting_sends_in_behind(self) -> None:
        """Entries may take less memory, so that sends which waited for room are put into the queue that is changing."""
        room = 6 * (len(b"0") + RECORD_BYTES + SEND_MEMORY) - 20  # for six sends, and for one more as entries
        producer = self.producer(buffer_bytes=room, max_in_flight=1, batch_messages=1, metadata_age=0.5)
        self.result(producer.send("t", b"first", partition=0))
        self.broker.silent = (ProduceAck,)
        sends = [producer.send("t", b"%x" % number, partition=0) for number in range(12)]
        self.run_for(0.1)
        self.broker.formats["t"] = "0.7"
        self.run_for(3.0)
        self.broker.silent = ()
        self.broker.lose_all()
        self.flushed(producer)
        self.assertEqual(self.log.payloads(), [b"first", *(b"%x" % number for number in range(12))])
        for sending in sends:
            self.successResultOf(sending)
        self.assertEqual(producer.buffered_bytes, 0)

    def test_a_set_that_came_compressed_and_was_taken_back_leaves_nothing(self) -> None:
        """Neither an empty set, which the broker would be sent, nor memory."""
        producer = self.producer(linger=0.05)
        self.broker.refuse = lambda part: None if part.message_set else InvalidMessage("an empty set")
        for kept in (0, 1):
            sets = [producer.send("t", MessageSet((Message(b"%d" % n),) * 3, "gzip"), partition=0) for n in range(4)]
            self.run_for(0.01)
            for sending in sets[kept:]:
                sending.addErrback(lambda failure: failure.trap(CancelledError))
                sending.cancel()
            self.clock.advance(0)
            if not kept:
                self.assertEqual(producer.buffered_bytes, 0)
            self.flushed(producer)
        self.assertEqual(self.log.payloads(), [b"0"] * 3)
        self.assertEqual(self.sets(), [3])
        self.assertEqual(producer.buffered_bytes, 0)
