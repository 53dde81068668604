"""The batch reader: plans id ranges on the driver, reads one in each task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from logd.spark.blocking.cluster import BlockingCluster
from logd.spark.blocking.range_planning import plan_ranges, split_for_tasks
from logd.spark.blocking.ranges import IdRange
from logd.spark.worker.options import ReadOptions
from logd.spark.worker.tasks import read_batches


class RangePartition(InputPartition):
    """The range that one task reads."""

    def __init__(self, id_range: IdRange) -> None:
        super().__init__(id_range)


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
        return [RangePartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Without partitions Spark makes one task, with nothing to do.
        return iter(()) if partition.value is None else read_batches(self._options, partition.value)
