"""Runs the task of a reader: reads a range of ids into Arrow record batches, without Twisted and pyspark."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

import pyarrow as pa

from logd.plurals import counted
from logd.spark.blocking.cluster import BlockingCluster
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.reading import RangeReader
from logd.spark.blocking.schema_lookup import SchemaText
from logd.spark.worker.arrow import BatchMaker, source_schema
from logd.spark.worker.avro import AvroValues
from logd.spark.worker.malformed import ValueDecoding
from logd.spark.worker.options import ColumnOptions, ReadOptions
from logd.spark.worker.registered import RegisteredValues, asking

_log = logging.getLogger("logd.spark")


def read_batches(
    options: ReadOptions, id_range: IdRange, written: Mapping[int, SchemaText] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the range's messages in record batches of the source's schema.

    ``written`` are schemas of messages by their ids, as the driver has looked them up.

    Raises the errors of RangeReader.rows, UndecodableValue, and RegistryUnavailable.
    """
    shape = options.shape
    values = _values(shape, written or {})
    topic, partition = id_range.topic, id_range.partition
    decoding = None if values is None else ValueDecoding(values, shape.mode, topic, partition)
    schema = source_schema(
        shape.include_headers,
        None if values is None else values.type,
        shape.corrupt_column,
        shape.include_values,
        shape.reason_column,
    )
    maker = BatchMaker(schema, topic, partition, decoding, shape.corrupt_column, shape.reason_column)
    with BlockingCluster(options.cluster) as cluster:
        reader = RangeReader(cluster, id_range, options.reading)
        for rows in reader.rows():
            yield maker.batch(rows)
    if decoding is not None:
        decoding.warn()
    report = reader.report
    if report.gaps:
        _log.warning("%s: skipped %s of %s", id_range, counted(report.gaps, "gap"), counted(report.gap_bytes, "byte"))


def _values(shape: ColumnOptions, written: Mapping[int, SchemaText]) -> AvroValues | RegisteredValues | None:
    if shape.avro_schema is not None:
        return AvroValues(shape.avro_schema)
    if shape.registry is None or shape.reader is None:
        return None
    return RegisteredValues(shape.reader, written, asking(shape.registry.settings))
