"""Tests of messages that the broker refuses as too large and the producer leaves out."""

from __future__ import annotations

from random import Random

from logd.errors import MessageTooLarge, WireError
from logd.protocol.loops import decode_set
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.produce_ack import ProducePart
from tests.client.producers import ProducerTestCase

LIMIT = 100


class TooLargeTests(ProducerTestCase):
    """``on_too_large``, at a broker whose message.bytes is small."""

    def setUp(self) -> None:
        """Have the model refuse large entries."""
        super().setUp()
        self.broker.refuse = self.refuse

    def refuse(self, part: ProducePart) -> WireError | None:
        """Return an error if one of the set's entries is too large."""
        data = part.message_set
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            if size - 5 > LIMIT:
                return MessageTooLarge("no")
            at += 4 + size
        return None

    def stored(self) -> list[bytes]:
        """Return the payloads in the broker's log."""
        return [message.payload or b"" for message in decode_set(bytes(self.log.data)).messages]

    def messages(self, *sizes: int) -> list[Message]:
        """Return messages of these sizes that begin with their number."""
        return [Message(b"%03d" % number + b"x" * (size - 3)) for number, size in enumerate(sizes)]

    def test_messages_too_large_are_left_out(self) -> None:
        """The rest of the set is stored once each, in order; Sent counts the messages left out and their bytes."""
        messages = self.messages(*[LIMIT + 1 if number in (0, 7, 8, 20, 29) else 20 + number for number in range(30)])
        sent = self.result(self.producer(on_too_large="skip").send("t", messages), 3.0)
        self.assertEqual(self.stored(), [m.payload for m in messages if len(m.payload or b"") <= LIMIT])
        self.assertEqual((sent.skipped, sent.skipped_bytes), (5, 5 * (LIMIT + 1)))
        self.assertEqual(sent.first_id, 0)
        self.assertEqual(sum(part.next_position - part.first_id for part in sent.parts), self.log.end)

    def test_a_compressed_batch_is_divided_first(self) -> None:
        """A wrapper that is too large becomes several; only messages too large by themselves are left out."""
        noise = Random(1)
        messages = [Message(noise.randbytes(300 if number in (3, 11) else 20)) for number in range(16)]
        messages.append(Message(b"x" * 500))  # fits once it is compressed
        producer = self.producer(on_too_large="skip", compression="gzip")
        sent = self.result(producer.send("t", messages), 3.0)
        self.assertEqual(self.stored(), [m.payload for m in messages if len(m.payload or b"") != 300])
        self.assertEqual((sent.skipped, sent.skipped_bytes), (2, 600))
        self.assertEqual(producer.buffered_bytes, 0)

    def test_the_order_holds_around_a_message_left_out(self) -> None:
        """Sets in flight behind it stay behind, and other sends of its batch do not fail."""
        producer = self.producer(on_too_large="skip", batch_messages=4)
        messages = self.messages(*[LIMIT + 1 if number % 5 == 2 else 50 for number in range(40)])
        sends = [producer.send("t", message) for message in messages]
        self.run_for(3.0)
        results = [self.successResultOf(send) for send in sends]
        self.assertEqual([sent.skipped for sent in results], [int(number % 5 == 2) for number in range(40)])
        self.assertEqual(self.stored(), [m.payload for n, m in enumerate(messages) if n % 5 != 2])
        self.assertEqual(producer.buffered_bytes, 0)

    def test_a_send_of_nothing_but_large_messages_ends(self) -> None:
        """The result has no ids, and nothing is stored."""
        sent = self.result(self.producer(on_too_large="skip").send("t", self.messages(200, 201, 202)), 3.0)
        self.assertEqual((sent.skipped, sent.skipped_bytes, sent.first_id, sent.parts), (3, 603, -1, ()))
        self.assertEqual(self.stored(), [])

    def test_a_set_is_refused_whole_by_default(self) -> None:
        """The send fails, so that no message is lost unseen."""
        send = self.producer().send("t", self.messages(10, 200))
        self.run_for(1.0)
        self.failureResultOf(send, MessageTooLarge)
        self.assertEqual(self.stored(), [])

    def test_a_set_that_came_compressed_is_not_divided(self) -> None:
        """The application encoded it, so it is stored as it is or not at all."""
        producer = self.producer(on_too_large="skip")
        noise = [Message(bytes((number * number * each) % 251 for each in range(90))) for number in range(1, 9)]
        send = producer.send("t", MessageSet(noise, "gzip"))
        self.run_for(2.0)
        self.failureResultOf(send, MessageTooLarge)
        self.assertEqual(self.stored(), [])
        self.assertEqual(producer.buffered_bytes, 0)
