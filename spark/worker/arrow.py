"""Columns of messages to Arrow record batches, in exactly the types that Spark expects of its schema."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define

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

    ``corrupt_column`` names the column of ``schema`` for the bytes of values that do not decode, if there is one.
    """

    schema: pa.Schema
    topic: str
    partition: int
    decoding: ValueDecoding | None = None
    corrupt_column: str | None = None

    def batch(self, rows: Rows) -> pa.RecordBatch:
        """Return the rows, padded, as one record batch. Raises UndecodableValue."""
        made = {}
        kept = None
        if self.decoding is not None:
            decoded = self.decoding.decode(rows)
            made["value"], kept = decoded.values, decoded.kept
            if self.corrupt_column is not None:
                made[self.corrupt_column] = decoded.corrupt
        columns = [
            made[name] if name in made else getattr(self, f"_{name.lower()}")(rows) for name in self.schema.names
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return batch if kept is None else batch.filter(kept)

    def _key(self, rows: Rows) -> pa.Array:
        return pa.array(rows.keys, pa.binary()) if rows.keys else pa.nulls(len(rows), pa.binary())

    def _value(self, rows: Rows) -> pa.Array:
        return pa.array(rows.values, pa.binary())

    def _topic(self, rows: Rows) -> pa.Array:
        return pa.repeat(self.topic, len(rows))

    def _partition(self, rows: Rows) -> pa.Array:
        return pa.repeat(pa.scalar(self.partition, pa.int32()), len(rows))

    def _offset(self, rows: Rows) -> pa.Array:
        # Kafka's clients know a message by its last position.
        return pc.subtract(self._next_position(rows), 1)

    def _id(self, rows: Rows) -> pa.Array:
        return pa.array(rows.ids, pa.int64())

    def _next_position(self, rows: Rows) -> pa.Array:
        return pa.array(rows.nexts, pa.int64())

    def _timestamp(self, rows: Rows) -> pa.Array:
        if not rows.times:
            return pa.nulls(len(rows), TIMESTAMP)
        times = rows.times
        if any(time is not None and time > _LAST_MS for time in times):
            times = [None if time is None or time > _LAST_MS else time for time in times]
        return pa.array(times, pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP)

    def _timestamptype(self, rows: Rows) -> pa.Array:
        if not rows.times or None not in rows.times:  # all headers are alike, as is usual
            return pa.repeat(pa.scalar(CREATED if rows.times else NO_TIME, pa.int32()), len(rows))
        return pa.array([NO_TIME if time is None else CREATED for time in rows.times], pa.int32())

    def _headers(self, rows: Rows) -> pa.Array:
        all_headers = rows.headers or [()] * len(rows)
        starts = pa.array(list(accumulate(map(len, all_headers), initial=0)), pa.int32())
        names = pa.array([name for headers in all_headers for name, _ in headers], pa.string())
        values = pa.array([value for headers in all_headers for _, value in headers], pa.binary())
        pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
        return pa.ListArray.from_arrays(starts, pairs, type=HEADERS)


def source_schema(
    include_headers: bool = False,
    value_type: Any = None,
    corrupt_column: str | None = None,
    include_values: bool = True,
) -> pa.Schema:
    """Return the columns of the data source; ``value`` has ``value_type`` if that is given.

    Without ``include_values`` there is neither ``key`` nor ``value``.
    """
    left_out = {"headers"} if not include_headers else set()
    if not include_values:
        left_out |= {"key", "value"}
    names = [name for name in COLUMNS if name not in left_out]
    fields = [(name, value_type if name == "value" and value_type is not None else COLUMNS[name]) for name in names]
    return pa.schema(fields if corrupt_column is None else [*fields, (corrupt_column, pa.binary())])
