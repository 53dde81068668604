"""Tests of logd.spark.worker.arrow: rows become record batches."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol import loops
from logd.protocol.batch import encode_batch
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from logd.spark.blocking.rows import Cursor, Rows
from logd.spark.worker.arrow import CREATED, NO_TIME, TIMESTAMP, BatchMaker, source_schema
from tests.protocol.strategies import message_lists

#: The last time in ms that is one in microseconds too.
LAST = ((1 << 63) - 1) // 1000


def rows_of(data: bytes, position: int = 0, limit: int = 1000, include_values: bool = True) -> Rows:
    """Return all rows of a piece of log, taken so many at a time, so that they have several parts."""
    rows = Rows()
    cursor = Cursor(data, position, include_values=include_values)
    while not cursor.ended:
        cursor.fill(rows, len(rows) + limit)
    return rows


class BatchMakerTests(SynchronousTestCase):
    """Record batches of one partition."""

    maker = BatchMaker(source_schema(include_headers=True), "t", 3)

    @given(st.lists(message_lists.filter(bool), min_size=1, max_size=4), st.integers(0, 1 << 40), st.integers(1, 9))
    def test_a_batch_has_every_field_of_every_message(
        self, sets: list[list[Message]], position: int, limit: int
    ) -> None:
        """Of entries of all kinds, in one part or in many."""
        encoders = (loops.encode_set, encode_batch, partial(wrap, codec="gzip"))
        data = b"".join(encoders[number % 3](messages) for number, messages in enumerate(sets))
        batch = self.maker.batch(rows_of(data, position, limit))
        batch.validate(full=True)
        expected = loops.decode_set(data, position).messages
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name != "timestamp"}
        self.assertEqual(columns["key"], [message.key for message in expected])
        self.assertEqual(columns["value"], [message.payload for message in expected])
        self.assertEqual(columns["id"], [message.id for message in expected])
        self.assertEqual(columns["next_position"], [message.next_position for message in expected])
        self.assertEqual(columns["offset"], [message.next_position - 1 for message in expected])
        self.assertEqual(
            columns["headers"],
            [[{"key": name, "value": value} for name, value in message.headers] for message in expected],
        )
        self.assertEqual(set(columns["topic"]) | set(columns["partition"]), {"t", 3})

    def test_times_are_microseconds_or_null(self) -> None:
        """Also beside messages without a time, and null for a time that has no microseconds; its type stays."""
        for times in ([0, None, LAST, LAST + 1, (1 << 63) - 1], [5, 6], [None, None], [LAST + 1], [None, 7]):
            messages = [Message(b"x", timestamp=time) for time in times]
            for data in (loops.encode_set(messages), encode_batch(messages)):
                batch = self.maker.batch(rows_of(data, limit=3))
                self.assertEqual(batch.column("timestamp").type, TIMESTAMP)
                self.assertEqual(
                    batch.column("timestamp").cast("int64").to_pylist(),
                    [None if time is None or time > LAST else time * 1000 for time in times],
                )
                self.assertEqual(
                    batch.column("timestampType").to_pylist(),
                    [NO_TIME if time is None else CREATED for time in times],
                )

    def test_values_are_left_out(self) -> None:
        """The other columns are the same, whether the rows have values or not."""
        maker = BatchMaker(source_schema(include_values=False), "t", 3)
        messages = [Message(b"x" * number, key=b"k", timestamp=number) for number in range(20)]
        for encode in (loops.encode_set, encode_batch, partial(wrap, codec="gzip")):
            data = encode(messages)
            self.assertEqual(maker.batch(rows_of(data, 5, include_values=False)), maker.batch(rows_of(data, 5)))

    def test_bytes_are_not_copied(self) -> None:
        """Arrow takes the buffers of the loops."""
        rows = rows_of(encode_batch([Message(b"value", key=b"key", timestamp=5)] * 10))
        batch = self.maker.batch(rows)
        (part,) = rows.parts
        assert part.values is not None and part.keys is not None
        for name, buffer in (("value", part.values.data), ("key", part.keys.data)):
            found = batch.column(name).buffers()[2]
            self.assertEqual(found.address, pa.py_buffer(buffer).address)
