"""The ceiling of a data source in Python: one that hands the same record batch to Spark again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from logd.spark.worker.arrow import CREATED, TIMESTAMP, source_schema

#: Bytes of values in one record batch: those that a task of ``format("logd")`` fetches at a time by default.
BATCH_BYTES = 2 << 20


def made_batch(rows: int, size: int) -> pa.RecordBatch:
    """Return rows of the columns of ``format("logd")``, with values of ``size`` bytes."""
    columns = {
        "key": pa.nulls(rows, pa.binary()),
        "value": pa.array([b"%0*d" % (size, number) for number in range(rows)], pa.binary()),
        "topic": pa.repeat("bench", rows),
        "partition": pa.repeat(pa.scalar(0, pa.int32()), rows),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.repeat(pa.scalar(0, TIMESTAMP), rows),
        "timestampType": pa.repeat(pa.scalar(CREATED, pa.int32()), rows),
        "id": pa.array(range(rows), pa.int64()),
        "next_position": pa.array(range(rows), pa.int64()),
    }
    schema = source_schema()
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


class CeilingSource(DataSource):
    """``format("logd-bench-ceiling")``: ``rows`` rows with values of ``size`` bytes, from ``tasks`` tasks."""

    @classmethod
    def name(cls) -> str:
        return "logd-bench-ceiling"

    def schema(self) -> StructType:
        return from_arrow_schema(source_schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        return _CeilingReader(*(int(self.options[name]) for name in ("rows", "size", "tasks")))


class _CeilingReader(DataSourceReader):
    def __init__(self, rows: int, size: int, tasks: int) -> None:
        self._rows, self._size, self._tasks = rows, size, tasks

    def partitions(self) -> Sequence[InputPartition]:
        bounds = [self._rows * number // self._tasks for number in range(self._tasks + 1)]
        return [InputPartition(end - begin) for begin, end in pairwise(bounds)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows: int = partition.value
        whole = max(BATCH_BYTES // self._size, 1)
        batch = made_batch(min(whole, rows), self._size)
        while rows:
            yield batch.slice(0, rows)  # the whole batch, where there are as many rows
            rows -= min(whole, rows)
