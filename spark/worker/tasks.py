"""Runs the task of a reader: reads a range of ids into Arrow record batches, without Twisted and pyspark."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa

from logd.plurals import counted
from logd.spark.blocking.cluster import BlockingCluster
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.reading import RangeReader
from logd.spark.worker.arrow import BatchMaker, source_schema
from logd.spark.worker.avro import AvroValues
from logd.spark.worker.malformed import ValueDecoding
from logd.spark.worker.options import ReadOptions

_log = logging.getLogger("logd.spark")


def read_batches(options: ReadOptions, id_range: IdRange) -> Iterator[pa.RecordBatch]:
    """Yield the range's messages in record batches of the source's schema.

    Raises the errors of RangeReader.rows, and UndecodableValue.
    """
    shape = options.shape
    avro = None if shape.avro_schema is None else AvroValues(shape.avro_schema)
    topic, partition = id_range.topic, id_range.partition
    decoding = None if avro is None else ValueDecoding(avro, shape.mode, topic, partition)
    schema = source_schema(
        shape.include_headers, None if avro is None else avro.type, shape.corrupt_column, shape.include_values
    )
    maker = BatchMaker(schema, topic, partition, decoding, shape.corrupt_column)
    with BlockingCluster(options.cluster) as cluster:
        reader = RangeReader(cluster, id_range, options.reading)
        for rows in reader.rows():
            yield maker.batch(rows)
    if decoding is not None:
        decoding.warn()
    report = reader.report
    if report.gaps:
        _log.warning("%s: skipped %s of %s", id_range, counted(report.gaps, "gap"), counted(report.gap_bytes, "byte"))
