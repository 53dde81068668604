"""Turns rows of a data frame into messages; the columns are checked before the first row is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa

from logd.errors import ConfigurationError, InvalidMessage
from logd.protocol.message import Message

#: Column -> types that it may have, as Spark writes them.
TYPES = {
    "value": ("binary", "string"),
    "key": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
#: Columns of the source that the broker sets when a message is written: its positions, and the type of its time.
_PLACES = ("offset", "id", "next_position", "timestampType")


def check_columns(columns: Sequence[tuple[str, str]], topic: str | None) -> None:
    """Check (name, type) of each column. Raises ConfigurationError that names the mistake and the allowed values."""
    known = dict(columns)
    for name, kind in columns:
        if name in _PLACES:
            continue
        if name not in TYPES:
            raise ConfigurationError(
                f"the sink has no use for a column {name!r}: select {', '.join(TYPES)} (value alone is needed), "
                "or put the others into value, as to_json(struct(*)) does"
            )
        if kind not in TYPES[name]:
            raise ConfigurationError(f"column {name!r} is {kind}; allowed is {' or '.join(TYPES[name])}")
    if "value" not in known:
        raise ConfigurationError("the sink needs a column 'value' of binary or string")
    if "topic" not in known and topic is None:
        raise ConfigurationError("no topic is given: set the option 'topic', or add a column of that name")


def messages_of(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, int | None, Message]]:
    """Yield (topic, partition, message) for each row. Raises InvalidMessage for a row that makes no message."""
    count = batch.num_rows
    values = _column(batch, "value")
    keys = _column(batch, "key") if "key" in batch.schema.names else repeat(None, count)
    topics = batch.column("topic").to_pylist() if "topic" in batch.schema.names else repeat(topic, count)
    partitions = batch.column("partition").to_pylist() if "partition" in batch.schema.names else repeat(None, count)
    times = _times(batch) if "timestamp" in batch.schema.names else repeat(None, count)
    headers = _headers(batch) if "headers" in batch.schema.names else repeat((), count)
    rows = zip(values, keys, topics, partitions, times, headers, strict=True)
    for value, key, name, partition, time, pairs in rows:
        if name is None:
            name = topic
        if name is None:
            raise InvalidMessage("a row has no topic, and the option 'topic' names none")
        try:
            message = Message(value, key=key, timestamp=time, headers=pairs)
        except (TypeError, ValueError) as error:
            raise InvalidMessage(f"a row for topic {name!r} makes no message: {error}") from None
        yield name, partition, message


def _column(batch: pa.RecordBatch, name: str) -> list[Any]:
    return batch.column(name).cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]


def _times(batch: pa.RecordBatch) -> list[Any]:
    milliseconds = batch.column("timestamp").cast(pa.timestamp("ms", batch.column("timestamp").type.tz), safe=False)
    return milliseconds.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]


def _headers(batch: pa.RecordBatch) -> list[Any]:
    return [
        tuple((pair["key"], pair["value"]) if pair else (None, None) for pair in pairs) if pairs else ()
        for pairs in batch.column("headers").to_pylist()
    ]
