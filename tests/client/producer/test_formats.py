"""Tests of logd.client.producer.formats."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.client.producer.formats import EntriesFormat, Record, SingleEntryFormat
from logd.protocol import loops
from logd.protocol.message import Message


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
