"""Tests of the check of sets for topics with message.format = 0.7, whose readers stop at anything newer."""

from __future__ import annotations

from logd.config.log import DEFAULT_BATCH_BYTES
from logd.errors import InvalidMessage
from logd.protocol.batch import encode_batch
from logd.protocol.loops import Checked
from logd.protocol.message import Message
from logd.protocol.wrapper import encode_wrapper
from tests.protocol.loops.implementations import LoopsTestCase, on_each_implementation
from tests.protocol.loops.test_loops import HELLO_0, HELLO_1, KEYED, TOMBSTONE


@on_each_implementation
class LegacyFormatTests(LoopsTestCase):
    """Sets of all kinds of entries."""

    def check(self, data: bytes) -> Checked:
        """Check a set for such a topic."""
        checked: Checked = self.loops.check_set(data, 1000, DEFAULT_BATCH_BYTES, True)
        return checked

    def test_messages_of_0_7_are_taken(self) -> None:
        """Plain ones of both magics, and wrappers of gzip and snappy, alone and together."""
        wrappers = [encode_wrapper(codec, HELLO_0 * 3) for codec in ("gzip", "snappy")]
        for each in (HELLO_0, HELLO_1, *wrappers):
            self.assertEqual(self.check(each)[:2], (1, -1))
        self.assertEqual(self.check(HELLO_0 + HELLO_1 + b"".join(wrappers))[:2], (4, -1))

    def test_all_others_are_refused_with_the_setting(self) -> None:
        """Wherever they stand in the set; without the setting they are sound."""
        for data, what in (
            (KEYED, r"a message with a key, a time or headers \(magic 2\)"),
            (TOMBSTONE, r"a message with a key, a time or headers \(magic 2\)"),
            (encode_wrapper("zstd", HELLO_0), "a wrapper of zstd"),
            (encode_batch([Message(b"hello")]), r"a batch \(magic 3\)"),
        ):
            for before in (b"", HELLO_0):
                self.loops.check_set(before + data, 1000)
                where = f"entry at byte {len(before)} of a set of {len(before + data)} bytes: {what}.* = 0.7"
                self.assertRaisesRegex(InvalidMessage, where, self.check, before + data)

    def test_damage_is_told_first(self) -> None:
        """A checksum that does not hold is what the sender must know of."""
        damaged = bytearray(KEYED)
        damaged[-1] ^= 1
        self.assertRaisesRegex(InvalidMessage, "checksum mismatch", self.check, bytes(damaged))
