"""Tests of columns_of_set: the messages that decode_set makes, without an object for each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logd.protocol.message import Message
from tests.log.entries import gap, plain, wrapped
from tests.protocol.loops.implementations import LoopsTestCase, on_each_implementation, properties
from tests.protocol.loops.test_damage import changes
from tests.protocol.strategies import message_lists

PLAIN = [Message(b"hello"), Message(b""), Message(b"world")]
KEYED = [
    Message(b"a", key=b"k", timestamp=7),
    Message(b"b", headers=[("h", b"v")]),
    Message(b"", key=b""),
    Message(b"c", key=b"k", headers=[("h", b"v"), ("i", None)]),
    Message(b"d", timestamp=0),
]


@on_each_implementation
class ColumnTests(LoopsTestCase):
    """Runs of plain entries, and of keyed ones."""

    def test_plain(self) -> None:
        """Plain messages have a value and a place, and nothing else."""
        data = self.loops.encode_set(PLAIN)
        columns = self.loops.columns_of_set(data)
        self.assertEqual(tuple(columns), ([b"hello", b"", b"world"], None, None, None, [14, 23, 37]))

    def test_keyed(self) -> None:
        """Keyed messages have the parts that any of them has."""
        data = self.loops.encode_set(KEYED)
        values, keys, times, headers, stops = self.loops.columns_of_set(data)
        self.assertEqual(values, [b"a", b"b", b"", b"c", b"d"])
        self.assertEqual(keys, [b"k", None, b"", b"k", None])
        self.assertEqual(times, [7, None, None, None, 0])
        self.assertEqual(headers, [(), (("h", b"v"),), (), (("h", b"v"), ("i", None)), ()])
        self.assertEqual(stops, [message.next_position for message in self.loops.decode_set(data).messages])
        self.assertEqual(self.loops.columns_of_set(self.loops.encode_set(KEYED[2:3]))[1:4], ([b""], None, None))

    def test_one_kind(self) -> None:
        """A run ends where the kind changes, and goes on from any entry."""
        plain_part, keyed_part = self.loops.encode_set(PLAIN), self.loops.encode_set(KEYED)
        data = plain_part + keyed_part + plain_part
        at = 0
        for count in (len(PLAIN), len(KEYED), len(PLAIN)):
            columns = self.loops.columns_of_set(data, at)
            self.assertEqual((len(columns.values), len(columns.stops)), (count, count))
            at = columns.stops[-1]
        self.assertEqual(at, len(data))

    def test_others(self) -> None:
        """Entries of other kinds are left to decode_set."""
        tombstone = self.loops.encode_set([Message(None, key=b"k")])
        for entry in (wrapped(b"hello"), gap(9), tombstone, b"", plain(b"hello")[:-1], b"\0\0\0\x05\x63" + bytes(20)):
            self.assertEqual(tuple(self.loops.columns_of_set(entry)), ([], None, None, None, []))
            self.assertEqual(self.loops.columns_of_set(plain(b"x") + entry).values, [b"x"])

    def test_limits(self) -> None:
        """So many are taken, or so many bytes and the one that exceeds them."""
        for messages in (PLAIN * 5, KEYED * 5):
            data = self.loops.encode_set(messages)
            ends = [message.next_position for message in self.loops.decode_set(data).messages]
            for limit in range(1, 15):
                self.assertEqual(self.loops.columns_of_set(data, 0, limit).stops, ends[:limit])
                self.assertEqual(self.loops.columns_of_set(data, 0, 100, ends[limit - 1] - 1).stops, ends[:limit])

    def test_damage(self) -> None:
        """A run ends before an entry in which a byte changed that a checksum covers."""
        for messages in (PLAIN, KEYED):
            entries = [self.loops.encode_set([message]) for message in messages]
            for number, entry in enumerate(entries):
                for at in range(9, len(entry)):
                    for changed in list(changes(entry, at))[::60]:
                        data = b"".join([*entries[:number], changed, *entries[number + 1 :]])
                        self.assertEqual(len(self.loops.columns_of_set(data).stops), number)

    @properties
    @given(message_lists, st.integers(1, 5))
    def test_any_set(self, messages: list[Message], limit: int) -> None:
        """All runs together are what decode_set makes, but for tombstones."""
        data = self.loops.encode_set(messages)
        at = 0
        for_each: list[tuple[object, ...]] = []
        while at < len(data):
            values, keys, times, headers, stops = self.loops.columns_of_set(data, at, limit)
            count = len(values)
            if not count:
                (message,) = self.loops.decode_set(data, begin=at, limit=1).messages
                self.assertIsNone(message.payload)
                values, keys, times, headers = [None], [message.key], [message.timestamp], [message.headers]
                stops, count = [at + message.next_position], 1
            columns = (keys or [None] * count, times or [None] * count, headers or [()] * count)
            for_each += zip(values, *columns, strict=True)
            at = stops[-1]
        self.assertEqual(for_each, [tuple(message)[:4] for message in messages])
