"""Tests of columns_of_set and columns_of_batches: the messages that decode_set makes, without an object for each."""

from __future__ import annotations

from struct import pack, pack_into

from hypothesis import given, settings
from hypothesis import strategies as st

from logd.protocol.batch import encode_batch
from logd.protocol.codecs import BATCH_CODEC_NUMBERS
from logd.protocol.loops.results import BatchColumns
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


#: A column of places and one of each field.
Row = tuple[object, ...]


def rows_of(columns: BatchColumns) -> list[Row]:
    """Return the columns as one tuple for each message."""
    count = len(columns.values)
    fields = (columns.keys or [None] * count, columns.times or [None] * count, columns.headers or [()] * count)
    return list(zip(columns.values, *fields, columns.ids, columns.nexts, strict=True))


def rows_from(messages: list[Message]) -> list[Row]:
    """Return the messages as rows_of does."""
    return [(m.payload, m.key, m.timestamp, m.headers, m.id, m.next_position) for m in messages]


@on_each_implementation
class BatchColumnTests(BatchTestCase):
    """Columns of batches."""

    def all_rows(self, data: bytes, position: int = 0, **limits: int) -> tuple[list[Row], BatchColumns]:
        """Return the rows of all calls up to one that has none, and its result."""
        rows: list[Row] = []
        at, opened = 0, None
        for _ in range(len(data)):
            columns = self.loops.columns_of_batches(data, position + at, begin=at, opened=opened, **limits)
            rows += rows_of(columns)
            at, opened = columns.consumed, columns.opened
            if not columns.values:
                return rows, columns
        raise self.failureException("more calls than bytes")

    @settings(properties, max_examples=200)
    @given(st.lists(st.tuples(message_lists.filter(bool), BATCH_CODECS), max_size=3), st.integers(0, 1 << 40))
    def test_columns_hold_the_messages_of_decode_set(
        self, batches: list[tuple[list[Message], str]], position: int
    ) -> None:
        """Of any batches, compressed or not, with the same positions."""
        data = b"".join(encode_batch(messages, codec) for messages, codec in batches)
        columns = self.loops.columns_of_batches(data, position)
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
        columns = self.loops.columns_of_batches(bare)
        self.assertEqual(columns[:4], ([b"a", b"bb"], None, None, None))
        self.assertEqual((columns.ids, columns.nexts), ([0, len(bare) - 1], [len(bare) - 1, len(bare)]))
        columns = self.loops.columns_of_batches(bare + full + bare)
        self.assertEqual(columns.keys, [None, None, b"k", None, None])
        self.assertEqual(columns.times, [None, None, 7, None, None])
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
        self.assertEqual([row[:4] for row in rows_of(self.loops.columns_of_batches(data))], rows_of_fields(messages))

    def test_the_time_of_appending_is_that_of_each_message(self) -> None:
        """Bit 3 of the attributes gives all messages the newest time."""
        data = batch(record(b"a", 0, 3), record(b"b", 1, 9), time=50, codec=8)
        self.assertEqual(self.loops.columns_of_batches(data).times, [50, 50])

    def test_removed_messages_leave_their_positions(self) -> None:
        """Where compaction has removed messages, those left keep their positions."""
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
        for entry in (plain(b"x"), wrapped(b"x"), gap(9), b"", TWO[:-1], TWO[:5], b"\0"):
            columns = self.loops.columns_of_batches(entry)
            self.assertEqual((columns.values, columns.ids, columns.consumed, columns.opened), ([], [], 0, None))
            columns = self.loops.columns_of_batches(b"?" + TWO + entry, 0, begin=1)
            self.assertEqual((columns.values, columns.consumed), ([b"a", b"bb"], 1 + len(TWO)))

    def test_columns_end_before_damage(self) -> None:
        """For a change of any byte; decode_set reports it."""
        for at in range(len(TWO)):
            changed = TWO[:at] + bytes((TWO[at] ^ 1,)) + TWO[at + 1 :]
            columns = self.loops.columns_of_batches(TWO + changed)
            self.assertEqual((len(columns.values), columns.consumed), (2, len(TWO)))

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
            columns = self.loops.columns_of_batches(TWO + data, **bounds)
            self.assertEqual((len(columns.values), columns.consumed, columns.opened), (2, len(TWO), None))

    def test_limits_hold_over_several_batches(self) -> None:
        """Of messages exactly, of decompressed bytes but for the last message; sizes are those of the records."""
        for codec in BATCH_CODEC_NUMBERS:
            data = encode_batch([Message(bytes(1000))] * 10, codec) * 10
            self.assertEqual(len(self.loops.columns_of_batches(data, limit=25).values), 25)
            columns = self.loops.columns_of_batches(data, limit_bytes=25_000)
            self.assertEqual(len(columns.values), 25)
            self.assertTrue(25_000 <= columns.size < 26_100, columns.size)
            self.assertEqual(self.loops.columns_of_batches(data, limit=0).values, [])


def rows_of_fields(messages: list[Message]) -> list[Row]:
    """Return the fields of the messages without their places."""
    return [tuple(message)[:4] for message in messages]
