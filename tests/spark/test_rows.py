"""Tests of logd.spark.blocking.rows: message sets become columns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol import loops
from logd.protocol.batch import encode_batch
from logd.protocol.codecs import BATCH_CODEC_NUMBERS
from logd.protocol.entry import encode_gap
from logd.protocol.loops import python
from logd.protocol.loops.results import Decoded
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from logd.spark.blocking.rows import Cursor, Rows
from tests.log.entries import batch, record
from tests.protocol.strategies import codecs, message_lists


def taken(data: bytes, position: int = 0, limit: int = 1000) -> tuple[list[tuple[object, ...]], Cursor]:
    """Return all messages of a piece of log as tuples, taken ``limit`` at a time, and the cursor at the end."""
    cursor = Cursor(data, position)
    found: list[tuple[object, ...]] = []
    while not cursor.ended:
        rows = Rows()
        cursor.fill(rows, limit)
        found += [tuple(message)[:6] for message in rows.messages]
    return found, cursor


pieces = st.lists(
    st.one_of(
        message_lists.map(loops.encode_set),
        st.builds(lambda messages, codec: wrap(messages, codec), message_lists.filter(bool), codecs),
        st.builds(encode_batch, message_lists.filter(bool), st.sampled_from(sorted(BATCH_CODEC_NUMBERS))),
        st.integers(9, 40).map(lambda size: encode_gap(size) + bytes(size - 9)),
    ),
    max_size=5,
)


class CursorTests(SynchronousTestCase):
    """Columns, which hold what ``decode_set`` finds."""

    @given(pieces, st.integers(0, 1 << 40), st.integers(1, 5), st.integers(0, 30))
    def test_a_cursor_finds_what_decode_set_finds(
        self, parts: list[bytes], position: int, limit: int, cut: int
    ) -> None:
        """The log may hold anything, and be cut off anywhere."""
        data = b"".join(parts)
        data = data[: max(len(data) - cut, 0)]
        expected = loops.decode_set(data, position)
        found, cursor = taken(data, position, limit)
        self.assertEqual(found, [tuple(m)[:6] for m in expected.messages])
        self.assertEqual((cursor.position, cursor.at), (expected.position, expected.consumed))
        self.assertEqual((cursor.gaps, cursor.gap_bytes), (expected.gaps, expected.gap_bytes))
        self.assertIsNone(cursor.error)

    @given(message_lists.filter(bool), st.data())
    def test_a_cursor_finds_damage_where_decode_set_does(self, messages: list[Message], data: st.DataObject) -> None:
        """The messages before it are there."""
        sound = loops.encode_set(messages)
        place = data.draw(st.integers(0, len(sound) - 1))
        damaged = bytearray(sound)
        damaged[place] ^= data.draw(st.integers(1, 255))
        expected = loops.decode_set(bytes(damaged))
        found, cursor = taken(bytes(damaged))
        self.assertEqual(len(found), len(expected.messages))
        self.assertEqual(str(cursor.error), str(expected.error))
        self.assertEqual(cursor.position, expected.position)

    def test_damage_of_a_value_is_found(self) -> None:
        """Plain and keyed entries are checked on different ways."""
        for key in (None, b"k"):
            data = bytearray(loops.encode_set([Message(b"hello", key=key)] * 3))
            data[-1] ^= 1
            found, cursor = taken(bytes(data))
            self.assertEqual(len(found), 2)
            self.assertIsNotNone(cursor.error)

    def test_the_bytes_of_wrappers_and_batches_are_bounded(self) -> None:
        """Bytes after decompression count, since rows hold those."""
        for encode in (wrap, encode_batch):
            data = encode([Message(bytes(1000))] * 50, "zstd") * 60
            rows = Rows()
            Cursor(data, 0).fill(rows, 100_000, 20_000)
            self.assertLess(len(rows), 2000)

    def test_no_message_object_is_made_of_a_batch(self) -> None:
        """Batches become columns directly; decode_set is asked only behind the last one."""
        calls: list[int] = []

        def decode_set(*given: Any, **named: Any) -> Decoded:
            calls.append(named["begin"])
            return python.decode_set(*given, **named)

        self.patch(loops, "decode_set", decode_set)
        messages = [Message(b"%d" % number, key=b"k", timestamp=number) for number in range(500)]
        data = b"".join(encode_batch(messages, codec) for codec in ("none", "zstd"))
        found, cursor = taken(data, 30, limit=70)
        self.assertEqual([row[:4] for row in found], [tuple(message)[:4] for message in messages * 2])
        self.assertEqual((cursor.position, calls), (30 + len(data), []))
        taken(data + data[:10])
        self.assertEqual(calls, [len(data)])

    def test_a_wrong_record_in_a_batch_is_reported(self) -> None:
        """The messages before it are there; a batch above a bound is reported too."""
        data = batch(record(b"a"), record(b"b", 1), record(b"c", 1))
        found, cursor = taken(data, 10)
        self.assertEqual([row[0] for row in found], [b"a", b"b"])
        self.assertIsInstance(cursor.error, CorruptMessage)
        for setting, bounds in (("max_decompressed", (9, 2)), ("max_decompressed_messages", (1000, 1))):
            data = encode_batch([Message(b"x")] * 2, "gzip")
            cursor = Cursor(data, 0, max_decompressed=bounds[0], max_decompressed_messages=bounds[1])
            cursor.fill(Rows(), 10)
            assert isinstance(cursor.error, WrapperTooLarge)
            self.assertEqual(cursor.error.setting, setting)

    def test_the_bytes_of_small_wrappers_are_bounded(self) -> None:
        """A wrapper of few large messages is much smaller than they are."""
        value = bytes(range(256)) * 400
        data = wrap([Message(value)] * 5, "zstd") * 60
        rows = Rows()
        Cursor(data, 0).fill(rows, 100_000, 1_000_000)
        self.assertLessEqual(sum(len(each or b"") for each in rows.values), 1_000_000 + 5 * len(value))


class KeepTests(SynchronousTestCase):
    """``Rows.keep``, by which ranges that meet share no message."""

    @given(pieces, st.integers(0, 1000), st.lists(st.integers(0, 1000), max_size=4))
    def test_meeting_ranges_have_each_message_once(self, parts: list[bytes], position: int, cuts: list[int]) -> None:
        """The place where they meet may be between entries, inside one, or inside a wrapper."""
        data = b"".join(parts)
        bounds = sorted({position, position + len(data), *(position + cut for cut in cuts if cut < len(data))})
        found = []
        for start, end in pairwise(bounds):
            rows = Rows()
            cursor = Cursor(data, position)
            while not cursor.ended:
                cursor.fill(rows, 100)
                cursor.ended |= len(rows) >= 100
            rows.keep(start, end)
            found += [(m.id, m.next_position, m.payload) for m in rows.messages]
        messages = loops.decode_set(data, position).messages[:100]
        self.assertEqual(found, [(m.id, m.next_position, m.payload) for m in messages])
