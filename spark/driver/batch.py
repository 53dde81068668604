"""The batch reader: plans id ranges on the driver, reads one in each task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from logd.spark.blocking.cluster import BlockingCluster
from logd.spark.blocking.range_planning import plan_ranges, split_for_tasks
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.schema_lookup import SchemaText
from logd.spark.driver.registry import WrittenSchemas
from logd.spark.worker.options import ReadOptions
from logd.spark.worker.tasks import read_batches


class RangePartition(InputPartition):
    """The range that one task reads, with the schemas that its messages may have."""

    def __init__(self, id_range: IdRange, written: Mapping[int, SchemaText] | None = None) -> None:
        super().__init__(id_range)
        self.written = written


def with_schemas(pieces: Sequence[IdRange], schemas: WrittenSchemas) -> list[RangePartition]:
    """Return the tasks of ranges."""
    found = schemas.of({piece.topic for piece in pieces})
    return [RangePartition(piece, found.get(piece.topic)) for piece in pieces]


def read_partition(options: ReadOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one task. Without partitions Spark makes one task, with nothing to do."""
    if not isinstance(partition, RangePartition):
        return iter(())
    return read_batches(options, partition.value, partition.written)


class BatchReader(DataSourceReader):
    """Reads a batch: the ranges that the options give at the time of planning."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with BlockingCluster(options.cluster) as cluster:
            ranges = plan_ranges(
                cluster,
                options.subscription,
                options.starting,
                options.ending,
                options.reading.fail_on_data_loss,
            )
            pieces = split_for_tasks(cluster, ranges, options.range_bytes, options.min_partitions)
        return with_schemas(pieces, WrittenSchemas(options.shape.registry))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, partition)
