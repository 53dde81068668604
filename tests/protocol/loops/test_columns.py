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
    """Columns of runs of plain entries, and of keyed ones."""

    def test_plain_messages_have_values_and_ends(self) -> None:
        """Columns that no message has are None, so that none is built for nothing."""
        data = self.loops.encode_set(PLAIN)
        columns = self.loops.columns_of_set(data)
        self.assertEqual(tuple(columns), ([b"hello", b"", b"world"], None, None, None, [14, 23, 37]))

    def test_keyed_messages_have_the_columns_of_their_parts(self) -> None:
        """A column exists if any message of the run has the part; the others have None there."""
        data = self.loops.encode_set(KEYED)
        values, keys, times, headers, stops = self.loops.columns_of_set(data)
        self.assertEqual(values, [b"a", b"b", b"", b"c", b"d"])
        self.assertEqual(keys, [b"k", None, b"", b"k", None])
        self.assertEqual(times, [7, None, None, None, 0])
        self.assertEqual(headers, [(), (("h", b"v"),), (), (("h", b"v"), ("i", None)), ()])
        self.assertEqual(stops, [message.next_position for message in self.loops.decode_set(data).messages])
        self.assertEqual(self.loops.columns_of_set(self.loops.encode_set(KEYED[2:3]))[1:4], ([b""], None, None))

    def test_a_run_ends_where_the_kind_changes(self) -> None:
        """The next run begins there, at any entry."""
        plain_part, keyed_part = self.loops.encode_set(PLAIN), self.loops.encode_set(KEYED)
        data = plain_part + keyed_part + plain_part
        at = 0
        for count in (len(PLAIN), len(KEYED), len(PLAIN)):
            columns = self.loops.columns_of_set(data, at)
            self.assertEqual((len(columns.values), len(columns.stops)), (count, count))
            at = columns.stops[-1]
        self.assertEqual(at, len(data))

    def test_other_kinds_end_a_run(self) -> None:
        """Wrappers, gaps, tombstones, cut and unknown entries are left to decode_set."""
        tombstone = self.loops.encode_set([Message(None, key=b"k")])
        for entry in (wrapped(b"hello"), gap(9), tombstone, b"", plain(b"hello")[:-1], b"\0\0\0\x05\x63" + bytes(20)):
            self.assertEqual(tuple(self.loops.columns_of_set(entry)), ([], None, None, None, []))
            self.assertEqual(self.loops.columns_of_set(plain(b"x") + entry).values, [b"x"])

    def test_a_run_keeps_its_limits(self) -> None:
        """Of messages, or of bytes, which the last message may exceed."""
        for messages in (PLAIN * 5, KEYED * 5):
            data = self.loops.encode_set(messages)
            ends = [message.next_position for message in self.loops.decode_set(data).messages]
            for limit in range(1, 15):
                self.assertEqual(self.loops.columns_of_set(data, 0, limit).stops, ends[:limit])
                self.assertEqual(self.loops.columns_of_set(data, 0, 100, ends[limit - 1] - 1).stops, ends[:limit])

    def test_a_run_ends_before_damage(self) -> None:
        """For a change of any byte that a checksum covers; decode_set reports it."""
        for messages in (PLAIN, KEYED):
            entries = [self.loops.encode_set([message]) for message in messages]
            for number, entry in enumerate(entries):
                for at in range(9, len(entry)):
                    for changed in list(changes(entry, at))[::60]:
                        data = b"".join([*entries[:number], changed, *entries[number + 1 :]])
                        self.assertEqual(len(self.loops.columns_of_set(data).stops), number)

    @properties
    @given(message_lists, st.integers(1, 5))
    def test_all_runs_together_equal_decode_set(self, messages: list[Message], limit: int) -> None:
        """For any messages; tombstones are taken from decode_set."""
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
