"""Columns of messages to Arrow record batches, in exactly the types that Spark expects of its schema."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define

from logd.protocol import loops
from logd.spark.blocking.rows import Rows
from logd.spark.worker.malformed import ValueDecoding

#: Spark's types in Arrow (``pyspark.sql.pandas.types.to_arrow_schema`` with UTC); a test compares the two.
TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
COLUMNS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "timestampType": pa.int32(),
    "id": pa.int64(),
    "next_position": pa.int64(),
    "headers": HEADERS,
}

#: The types of times, with Kafka's numbers: no time; the producer's time.
NO_TIME = -1
CREATED = 0

#: The last millisecond that fits into a timestamp of microseconds; a later time becomes null.
_LAST_MS = ((1 << 63) - 1) // 1000


@define(eq=False)
class BatchMaker:
    """Makes the record batches of one partition; ``decoding`` is for values with a type.

    ``corrupt_column`` names the column of ``schema`` for the bytes of values that do not decode, if there is one, and
    ``reason_column`` that for the reasons.
    """

    schema: pa.Schema
    topic: str
    partition: int
    decoding: ValueDecoding | None = None
    corrupt_column: str | None = None
    reason_column: str | None = None

    def batch(self, rows: Rows) -> pa.RecordBatch:
        """Return the rows, at least one, as one record batch. Raises UndecodableValue."""
        made = {}
        kept = None
        if self.decoding is not None:
            decoded = self.decoding.decode(rows)
            made["value"], kept = decoded.values, decoded.kept
            if self.corrupt_column is not None:
                made[self.corrupt_column] = decoded.corrupt
            if self.reason_column is not None:
                made[self.reason_column] = decoded.reasons
        columns = [
            made[name] if name in made else getattr(self, f"_{name.lower()}")(rows) for name in self.schema.names
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return batch if kept is None else batch.filter(kept)

    def _key(self, rows: Rows) -> pa.Array:
        return _joined([_binary(part.keys, part.messages) for part in rows.parts])

    def _value(self, rows: Rows) -> pa.Array:
        return _joined([_binary(part.values, part.messages) for part in rows.parts])

    def _topic(self, rows: Rows) -> pa.Array:
        return pa.repeat(self.topic, len(rows))

    def _partition(self, rows: Rows) -> pa.Array:
        return pa.repeat(pa.scalar(self.partition, pa.int32()), len(rows))

    def _offset(self, rows: Rows) -> pa.Array:
        # Kafka's clients know a message by its last position.
        return pc.subtract(self._next_position(rows), 1)

    def _id(self, rows: Rows) -> pa.Array:
        return _joined([_numbers(part.ids, part.messages) for part in rows.parts])

    def _next_position(self, rows: Rows) -> pa.Array:
        return _joined([_numbers(part.nexts, part.messages) for part in rows.parts])

    def _timestamp(self, rows: Rows) -> pa.Array:
        return _joined([_times(part) for part in rows.parts])

    def _timestamptype(self, rows: Rows) -> pa.Array:
        return _joined([_time_types(part) for part in rows.parts])

    def _headers(self, rows: Rows) -> pa.Array:
        all_headers = rows.headers
        starts = pa.array(list(accumulate(map(len, all_headers), initial=0)), pa.int32())
        names = pa.array([name for headers in all_headers for name, _ in headers], pa.string())
        values = pa.array([value for headers in all_headers for _, value in headers], pa.binary())
        pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
        return pa.ListArray.from_arrays(starts, pairs, type=HEADERS)


def _joined(arrays: list[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _binary(column: loops.BinaryColumn | None, count: int) -> pa.Array:
    """Return a column without a copy of its bytes; nulls if there is none."""
    if column is None:
        return pa.nulls(count, pa.binary())
    buffers = [None if each is None else pa.py_buffer(each) for each in (column.valid, column.offsets, column.data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _numbers(column: bytes, count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(column)])


def _times(part: loops.Columns) -> pa.Array:
    if part.times is None:
        return pa.nulls(part.messages, TIMESTAMP)
    times = _numbers(part.times, part.messages)
    bounds = pc.min_max(times)
    if bounds["min"].as_py() < 0 or bounds["max"].as_py() > _LAST_MS:
        times = pc.if_else(pc.and_(pc.greater_equal(times, 0), pc.less_equal(times, _LAST_MS)), times, None)
    return pc.multiply(times, 1000).view(TIMESTAMP)


def _time_types(part: loops.Columns) -> pa.Array:
    if part.times is None:
        return pa.repeat(pa.scalar(NO_TIME, pa.int32()), part.messages)
    missing = pc.less(_numbers(part.times, part.messages), 0)
    return pc.if_else(missing, pa.scalar(NO_TIME, pa.int32()), pa.scalar(CREATED, pa.int32()))


def source_schema(
    include_headers: bool = False,
    value_type: Any = None,
    corrupt_column: str | None = None,
    include_values: bool = True,
    reason_column: str | None = None,
) -> pa.Schema:
    """Return the columns of the data source; ``value`` has ``value_type`` if that is given.

    Without ``include_values`` there is neither ``key`` nor ``value``.
    """
    left_out = {"headers"} if not include_headers else set()
    if not include_values:
        left_out |= {"key", "value"}
    names = [name for name in COLUMNS if name not in left_out]
    fields = [(name, value_type if name == "value" and value_type is not None else COLUMNS[name]) for name in names]
    further = ((corrupt_column, pa.binary()), (reason_column, pa.string()))
    return pa.schema([*fields, *((name, kind) for name, kind in further if name is not None)])
