"""The sink: each task sends its rows with acks -1 and succeeds once all are acknowledged. At least once."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from logd.spark.blocking.cluster import BlockingCluster
from logd.spark.blocking.producing import ExecutorProducer
from logd.spark.worker.incoming import check_columns, messages_of
from logd.spark.worker.options import SinkOptions


class Written(WriterCommitMessage):
    """The number of messages that one task has written, and their bytes."""

    def __init__(self, messages: int, size: int) -> None:
        self.messages = messages
        self.bytes = size


class BatchWriter(DataSourceArrowWriter):
    """Writes a data frame. Messages that a failed job has sent stay in the log."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check(options, schema)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return send_all(self._options, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch of a stream; a batch repeated after a failure is sent again."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check(options, schema)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return send_all(self._options, iterator)


def check(options: SinkOptions, schema: StructType) -> None:
    """Raise ConfigurationError for columns that the sink cannot take."""
    check_columns([(each.name, each.dataType.simpleString()) for each in schema.fields], options.topic)


def send_all(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Send every row. Raises the errors of ExecutorProducer, which fail the task and the job."""
    with BlockingCluster(options.cluster) as cluster:
        producer = ExecutorProducer(cluster, options.compression, options.batch_bytes)
        for batch in batches:
            for topic, partition, message in messages_of(batch, options.topic):
                producer.send(topic, message, partition)
        producer.flush()
    return Written(producer.messages, producer.bytes)
