"""Tests of logd.client.producer.refusal_text of the client's own refusals, each of which names
the message, and of logd.client.producer.formats."""

from __future__ import annotations

from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logd.client.producer.batches.batch import ProducerBatch
from logd.client.producer.batches.pieces import pieces_of
from logd.client.producer.formats import EntriesFormat, Record, SingleEntryFormat
from logd.client.producer.pending_send import PendingSend
from logd.client.producer.refusal_text import refusal
from logd.client.producer.unfinished import Unfinished
from logd.errors import InvalidMessage, MessageTooLarge
from logd.protocol import loops
from logd.protocol.message import Message


class RefusalTests(SynchronousTestCase):
    """``refusal``, and ``pieces_of`` where it refuses."""

    def test_a_refusal_names_the_largest_message(self) -> None:
        """The text has its number, its size, and the broker's setting that was exceeded."""
        messages = [Message(b"x" * size) for size in (10, 300, 20)]
        for form, setting in ((EntriesFormat(), "message.bytes"), (SingleEntryFormat(), "batch.bytes")):
            batch = ProducerBatch("t", 3, form, "none", Unfinished(), 1.0)
            batch.add(messages, 330, PendingSend("t", messages, None, None, "none", 1.0))
            text = str(refusal(batch, MessageTooLarge.code))
            self.assertIn("topic 't', partition 3: the broker refused a set of 3 messages, none of which is", text)
            self.assertIn("number 2 of it is the largest: it has 300 bytes", text)
            self.assertIn(setting, text)
            self.assertIn("topic 't', partition 3", str(refusal(batch, InvalidMessage.code)))

    def test_a_refusal_of_the_client_names_its_message(self) -> None:
        """The number counts in the set as it was sent, however it was divided."""
        for place in range(5):
            messages = [Message(b"x" * (200 if number == place else 5)) for number in range(5)]
            for form in (EntriesFormat(), SingleEntryFormat()):
                error = self.assertRaises(MessageTooLarge, pieces_of, messages, form, 50, 100)
                self.assertIn(f"message {place + 1} of the set has 200 bytes", str(error))


class FormatTests(SynchronousTestCase):
    """``EntriesFormat`` and ``SingleEntryFormat``."""

    def test_payloads_and_messages_travel_together(self) -> None:
        """A batch of payloads, of Messages or of both decodes to the same messages in the same order."""
        keyed = Message(b"keyed", key=b"k", timestamp=5)
        batches: list[list[Record]] = [[b"a", b"b"], [keyed, Message(b"a")], [b"a", keyed, b"b"], [keyed, b"a"]]
        for form in (EntriesFormat(), SingleEntryFormat()):
            for records in batches:
                for codec in ("none", "gzip"):
                    data, _ = form.encode(records, codec)
                    expected = [each if isinstance(each, Message) else Message(each) for each in records]
                    self.assertEqual(loops.decode_set(data, max_decompressed=1 << 20).messages, expected)

    def test_keyed_messages_are_encoded_once(self) -> None:
        """As payloads they would be refused only at the end, and take four times as long."""
        for form, name in ((EntriesFormat(), "encode_payloads"), (SingleEntryFormat(), "encode_payload_records")):
            with mock.patch.object(loops, name, wraps=getattr(loops, name)) as loop:
                form.encode([Message(b"v", key=b"k")] * 3, "none")
                self.assertEqual(loop.call_count, 0)
                form.encode([b"v"] * 2, "none")
                self.assertEqual(loop.call_count, 1)
