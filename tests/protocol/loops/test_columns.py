"""Tests of columns_of_set: the messages that decode_set makes, in flat buffers, without an object for each message."""

from __future__ import annotations

from struct import pack, pack_into

from hypothesis import given, settings
from hypothesis import strategies as st

from logd.protocol.batch import encode_batch
from logd.protocol.codecs import BATCH_CODEC_NUMBERS
from logd.protocol.flat_columns import BinaryColumn, binary_column, number_column, numbers_of
from logd.protocol.loops.results import Columns
from logd.protocol.message import Message
from tests.log.entries import batch, crc32c, gap, plain, record, wrapped
from tests.protocol.loops.implementations import LoopsTestCase, on_each_implementation, properties
from tests.protocol.loops.test_batches import BATCH_CODECS, TWO, BatchTestCase
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


#: The fields of a message and its places.
Row = tuple[object, ...]


def values_of(columns: Columns) -> list[bytes | None]:
    """Return the values of columns that have them."""
    assert columns.values is not None
    return columns.values.items()


def rows_of(columns: Columns) -> list[Row]:
    """Return the columns as one tuple for each message."""
    count = columns.messages
    keys = [None] * count if columns.keys is None else columns.keys.items()
    times = [-1] * count if columns.times is None else numbers_of(columns.times)
    fields = (keys, [None if time < 0 else time for time in times], columns.headers or [()] * count)
    return list(zip(values_of(columns), *fields, numbers_of(columns.ids), numbers_of(columns.nexts), strict=True))


def rows_from(messages: list[Message]) -> list[Row]:
    """Return the messages as rows_of does."""
    return [tuple(message)[:6] for message in messages]


@on_each_implementation
class ColumnTests(LoopsTestCase):
    """Columns of plain entries, and of keyed ones."""

    def ends_of(self, data: bytes) -> list[int]:
        """Return the index behind each message."""
        return [message.next_position for message in self.loops.decode_set(data).messages]

    def test_plain_messages_have_values_and_places(self) -> None:
        """Each buffer is as Arrow has it, and columns that no message has are None."""
        data = self.loops.encode_set(PLAIN)
        values = BinaryColumn(b"helloworld", pack("=4i", 0, 5, 5, 10), None)
        self.assertEqual(
            tuple(self.loops.columns_of_set(b"?" + data, 101, begin=1)),
            (3, values, None, None, None, pack("=3q", 101, 115, 124), pack("=3q", 115, 124, 138), 38, 37, None),
        )

    def test_keyed_messages_have_the_columns_of_their_parts(self) -> None:
        """A column exists if any message has the part; the others have none there."""
        columns = self.loops.columns_of_set(self.loops.encode_set(KEYED))
        self.assertEqual(values_of(columns), [b"a", b"b", b"", b"c", b"d"])
        self.assertEqual(columns.keys, BinaryColumn(b"kk", pack("=6i", 0, 1, 1, 1, 2, 2), b"\x0d"))
        self.assertEqual(columns.times, pack("=5q", 7, -1, -1, -1, 0))
        self.assertEqual(columns.headers, [(), (("h", b"v"),), (), (("h", b"v"), ("i", None)), ()])
        columns = self.loops.columns_of_set(self.loops.encode_set(KEYED[2:3]))
        self.assertEqual(columns[2:5], (BinaryColumn(b"", pack("=2i", 0, 0), None), None, None))

    def test_missing_items_are_found_at_any_place(self) -> None:
        """Bits fill bytes; the first message with a key, or without, may be any one."""
        for count in (1, 7, 8, 9, 30):
            for place in range(count):
                for key, others in ((b"k", None), (None, b"k")):
                    keys = [others] * count
                    keys[place] = key
                    messages = [Message(b"x", key=each, timestamp=5) for each in keys]
                    for data in (self.loops.encode_set(messages), encode_batch(messages)):
                        columns = self.loops.columns_of_set(data)
                        self.assertEqual(columns.keys, binary_column(keys) if any(keys) else None)
                tombstones = [Message(b"x", key=b"k")] * count
                tombstones[place] = Message(None, key=b"k")
                columns = self.loops.columns_of_set(encode_batch(tombstones))
                self.assertEqual(columns.values, binary_column([message.payload for message in tombstones]))

    def test_kinds_follow_each_other(self) -> None:
        """Messages of each kind that has columns come in one call, in any order."""
        kinds = [self.loops.encode_set(PLAIN), self.loops.encode_set(KEYED), encode_batch(KEYED, "zstd")]
        data = b"".join(first + second for first in kinds for second in kinds)
        columns = self.loops.columns_of_set(data, 5)
        self.assertEqual(rows_of(columns), rows_from(self.loops.decode_set(data, 5).messages))
        self.assertEqual((columns.consumed, columns.opened), (len(data), None))

    def test_other_kinds_end_the_columns(self) -> None:
        """Wrappers, gaps, tombstones, cut and unknown entries are left to decode_set."""
        tombstone = self.loops.encode_set([Message(None, key=b"k")])
        empty = (0, BinaryColumn(b"", bytes(4), None), None, None, None, b"", b"", 0, 0, None)
        for entry in (wrapped(b"hello"), gap(9), tombstone, b"", plain(b"hello")[:-1], b"\0\0\0\x05\x63" + bytes(20)):
            self.assertEqual(tuple(self.loops.columns_of_set(entry)), empty)
            self.assertEqual(values_of(self.loops.columns_of_set(plain(b"x") + entry)), [b"x"])

    def test_limits_hold(self) -> None:
        """Of messages, or of bytes, which the last message may exceed."""
        for messages in (PLAIN * 5, KEYED * 5):
            data = self.loops.encode_set(messages)
            ends = self.ends_of(data)
            for limit in range(1, 15):
                columns = self.loops.columns_of_set(data, limit=limit)
                self.assertEqual((columns.messages, columns.consumed), (limit, ends[limit - 1]))
                for less in (0, 1):
                    columns = self.loops.columns_of_set(data, limit_bytes=ends[limit - 1] - less)
                    self.assertEqual((columns.messages, columns.size), (limit, ends[limit - 1]))
            for limits in ({"limit": 0}, {"limit_bytes": 0}):
                self.assertEqual(self.loops.columns_of_set(data, **limits).messages, 0)

    def test_columns_end_before_damage(self) -> None:
        """For a change of any byte that a checksum covers; decode_set reports it."""
        for messages in (PLAIN, KEYED):
            entries = [self.loops.encode_set([message]) for message in messages]
            for number, entry in enumerate(entries):
                for at in range(9, len(entry)):
                    for changed in list(changes(entry, at))[::60]:
                        data = b"".join([*entries[:number], changed, *entries[number + 1 :]])
                        self.assertEqual(self.loops.columns_of_set(data).messages, number)

    def test_values_may_be_left_out(self) -> None:
        """Neither values nor keys are there then; all else is."""
        for data in (self.loops.encode_set(PLAIN), self.loops.encode_set(KEYED), encode_batch(KEYED, "gzip")):
            expected = self.loops.columns_of_set(data)._replace(values=None, keys=None)
            self.assertEqual(self.loops.columns_of_set(data, include_values=False), expected)

    @properties
    @given(message_lists, st.integers(1, 5))
    def test_all_columns_together_equal_decode_set(self, messages: list[Message], limit: int) -> None:
        """For any messages; tombstones are taken from decode_set."""
        data = self.loops.encode_set(messages)
        at = 0
        rows: list[Row] = []
        while at < len(data):
            columns = self.loops.columns_of_set(data, at, begin=at, limit=limit)
            at = columns.consumed
            if not columns.messages:
                decoded = self.loops.decode_set(data, at, begin=at, limit=1)
                self.assertIsNone(decoded.messages[0].payload)
                columns, at = Columns.of_messages(decoded.messages), decoded.consumed
            rows += rows_of(columns)
        self.assertEqual(rows, rows_from(self.loops.decode_set(data).messages))


@on_each_implementation
class BatchColumnTests(BatchTestCase):
    """Columns of batches."""

    def all_rows(self, data: bytes, position: int = 0, **limits: int) -> tuple[list[Row], Columns]:
        """Return the rows of all calls up to one that has none, and its result."""
        rows: list[Row] = []
        at, opened = 0, None
        for _ in range(len(data)):
            columns = self.loops.columns_of_set(data, position + at, begin=at, opened=opened, **limits)
            rows += rows_of(columns)
            at, opened = columns.consumed, columns.opened
            if not columns.messages:
                return rows, columns
        raise self.failureException("more calls than bytes")

    @settings(properties, max_examples=200)
    @given(st.lists(st.tuples(message_lists.filter(bool), BATCH_CODECS), max_size=3), st.integers(0, 1 << 40))
    def test_columns_hold_the_messages_of_decode_set(
        self, batches: list[tuple[list[Message], str]], position: int
    ) -> None:
        """Of any batches, compressed or not, with the same positions."""
        data = b"".join(encode_batch(messages, codec) for messages, codec in batches)
        columns = self.loops.columns_of_set(data, position)
        self.assertEqual(rows_of(columns), rows_from(self.decode_all(data, position)[0]))
        self.assertEqual((columns.consumed, columns.opened), (len(data), None))

    @settings(properties, max_examples=100)
    @given(message_lists.filter(bool), BATCH_CODECS, st.integers(1, 3), st.integers(1, 60))
    def test_slices_hold_what_the_whole_holds(
        self, messages: list[Message], codec: str, limit: int, limit_bytes: int
    ) -> None:
        """However few messages or bytes are asked for at a time, all of them come, in order."""
        data = encode_batch(messages, codec) * 2
        rows, last = self.all_rows(data, 7, limit=limit, limit_bytes=limit_bytes)
        self.assertEqual(rows, rows_from(self.decode_all(data, 7)[0]))
        self.assertEqual(last.consumed, len(data))

    def test_fields_that_none_has_are_no_columns(self) -> None:
        """A column is there where one message of any batch has the field; the others have None in it."""
        bare, full = (
            encode_batch([Message(b"a"), Message(b"bb")]),
            encode_batch([Message(b"c", key=b"k", timestamp=7, headers=[("h", b"v")])]),
        )
        columns = self.loops.columns_of_set(bare)
        self.assertEqual((values_of(columns), *columns[2:5]), ([b"a", b"bb"], None, None, None))
        self.assertEqual(columns.ids, number_column([0, len(bare) - 1]))
        self.assertEqual(columns.nexts, number_column([len(bare) - 1, len(bare)]))
        columns = self.loops.columns_of_set(bare + full + bare)
        self.assertEqual(columns.keys, binary_column([None, None, b"k", None, None]))
        self.assertEqual(columns.times, number_column([-1, -1, 7, -1, -1]))
        self.assertEqual(columns.headers, [(), (), (("h", b"v"),), (), ()])

    def test_records_of_all_shapes_follow_each_other(self) -> None:
        """Tombstones, empty values, keys, headers and times in any order, and numbers of one byte and more."""
        shapes = [
            Message(b"value", timestamp=5), Message(b"value", timestamp=9000), Message(None, key=b"k", timestamp=6),
            Message(b""), Message(b"longer value", timestamp=4), Message(b"value", headers=[("h", None)]),
            Message(bytes(100)), Message(b"value", key=b"", timestamp=5), Message(b"value"),
        ]  # fmt: skip
        messages = [shapes[number * number % len(shapes)] for number in range(9000)]
        data = encode_batch(messages)
        self.assertEqual([row[:4] for row in rows_of(self.loops.columns_of_set(data))], rows_of_fields(messages))

    def test_the_time_of_appending_is_that_of_each_message(self) -> None:
        """Bit 3 of the attributes gives all messages the newest time."""
        data = batch(record(b"a", 0, 3), record(b"b", 1, 9), time=50, codec=8)
        self.assertEqual(self.loops.columns_of_set(data).times, number_column([50, 50]))

    def test_removed_messages_leave_their_positions(self) -> None:
        """Messages left by a compaction keep their positions."""
        records = [record(b"a", 1), record(b"b", 2), record(b"c", 5), record(b"d", 6)]
        data = bytearray(batch(*records, time=5))
        pack_into(">i", data, 23, 8)  # nine messages were produced
        data[17:21] = pack(">I", crc32c(bytes(data[21:])))
        end = 100 + len(data)
        places = [(end - 8, end - 7), (end - 7, end - 6), (end - 4, end - 3), (end - 3, end - 2)]
        for limit in (1, 2, 3, 10):
            rows, last = self.all_rows(bytes(data), 100, limit=limit)
            self.assertEqual([row[4:] for row in rows], places)
            self.assertEqual(last.consumed, len(data))

    def test_columns_end_before_other_entries(self) -> None:
        """Also before a batch of which only the beginning is there."""
        for entry in (wrapped(b"x"), gap(9), b"", TWO[:-1], TWO[:5], b"\0"):
            columns = self.loops.columns_of_set(entry)
            self.assertEqual((values_of(columns), columns.ids, columns.consumed, columns.opened), ([], b"", 0, None))
            columns = self.loops.columns_of_set(b"?" + TWO + entry, 0, begin=1)
            self.assertEqual((values_of(columns), columns.consumed), ([b"a", b"bb"], 1 + len(TWO)))

    def test_columns_end_before_damage(self) -> None:
        """For a change of any byte; decode_set reports it."""
        for at in range(len(TWO)):
            changed = TWO[:at] + bytes((TWO[at] ^ 1,)) + TWO[at + 1 :]
            columns = self.loops.columns_of_set(TWO + changed)
            self.assertEqual((columns.messages, columns.consumed), (2, len(TWO)))

    def test_columns_end_before_a_wrong_record(self) -> None:
        """decode_set goes on with the opened batch, and reports the record."""
        wrong = bytearray(record(b"c", 2))
        for at, byte in ((0, 40), (0, 4), (3, 2), (3, 200), (4, 3), (5, 8), (5, 1), (7, 2)):
            changed = bytes(wrong[:at]) + bytes((byte,)) + bytes(wrong[at + 1 :])
            for behind in ([], [record(b"d", 3), record(b"e", 4)]):
                data = batch(record(b"a", 0), record(b"b", 1), changed, *behind)
                rows, last = self.all_rows(data, 10)
                self.assertEqual([row[0] for row in rows], [b"a", b"b"], (at, byte))
                decoded = self.loops.decode_set(data, 10, opened=last.opened)
                self.assertEqual(decoded.messages, [])
                self.assertEqual(str(decoded.error), str(self.decode_all(data, 10)[1].error))

    @settings(properties, max_examples=200)
    @given(st.lists(st.binary(max_size=9), max_size=4), st.binary(max_size=12), st.integers(0, 4))
    def test_any_records_are_read_as_by_decode_set(self, values: list[bytes], other: bytes, place: int) -> None:
        """Records before and behind bytes that are none have the same messages, and the same end."""
        records = [record(value, number) for number, value in enumerate(values)]
        records.insert(place, other)
        data = batch(*records)
        rows, last = self.all_rows(data)
        found, decoded = self.decode_all(data)
        self.assertEqual(rows, rows_from(found))
        self.assertEqual(last.consumed, decoded.consumed)

    def test_bounds_hold(self) -> None:
        """A batch above a bound of bytes or messages is left to decode_set, and nothing is made of it."""
        many, large = encode_batch([Message(b"")] * 2000, "zstd"), encode_batch([Message(bytes(100_000))], "gzip")
        for data, bounds in ((many, {"max_decompressed_messages": 1999}), (large, {"max_decompressed": 99_000})):
            columns = self.loops.columns_of_set(TWO + data, **bounds)
            self.assertEqual((columns.messages, columns.consumed, columns.opened), (2, len(TWO), None))

    def test_limits_hold_over_several_batches(self) -> None:
        """Of messages exactly, of decompressed bytes but for the last message; sizes are those of the records."""
        for codec in BATCH_CODEC_NUMBERS:
            data = encode_batch([Message(bytes(1000))] * 10, codec) * 10
            self.assertEqual(self.loops.columns_of_set(data, limit=25).messages, 25)
            columns = self.loops.columns_of_set(data, limit_bytes=25_000)
            self.assertEqual(columns.messages, 25)
            self.assertTrue(25_000 <= columns.size < 26_100, columns.size)
            self.assertEqual(self.loops.columns_of_set(data, limit=0).messages, 0)


def rows_of_fields(messages: list[Message]) -> list[Row]:
    """Return the fields of the messages without their places."""
    return [tuple(message)[:4] for message in messages]
