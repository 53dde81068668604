"""The data source ``logd``: makes its schema, readers and writers from options."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from logd.errors import ConfigurationError
from logd.spark.driver.batch import BatchReader
from logd.spark.driver.sink import BatchWriter, StreamWriter
from logd.spark.driver.stream import StreamReader
from logd.spark.driver.topic_sql import quoted
from logd.spark.worker.arrow import COLUMNS
from logd.spark.worker.avro import AvroValues
from logd.spark.worker.options import read_options, shape_options, sink_options

#: Columns in order: those of Spark's Kafka source, with its meaning, then logd's; ``headers`` only with includeHeaders.
_CONTENTS = "key:binary,value:{},"
_COLUMNS = (
    "topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,id:bigint,next_position:bigint"
)
_HEADERS = ",headers:array<struct<key:string,value:binary>>"


class LogdDataSource(DataSource):
    """``format("logd")``."""

    @classmethod
    def name(cls) -> str:
        return "logd"

    def schema(self) -> str:
        shape = shape_options(self.options)
        value = "binary" if shape.avro_schema is None else AvroValues(shape.avro_schema).ddl
        contents = _CONTENTS.format(value) if shape.include_values else ""
        columns = contents + _COLUMNS + (_HEADERS if shape.include_headers else "")
        if shape.corrupt_column is not None:
            name = shape.corrupt_column
            if name.lower() in {each.lower() for each in COLUMNS}:
                raise ConfigurationError(f"option columnNameOfCorruptRecord = {name!r} is the name of another column")
            columns += f",{quoted(shape.corrupt_column)}:binary"
        return f"struct<{columns}>"

    def reader(self, schema: StructType) -> DataSourceReader:
        self._check(schema)
        return BatchReader(read_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        self._check(schema)
        return StreamReader(read_options(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise ConfigurationError("a log cannot be overwritten: use mode('append')")
        return BatchWriter(sink_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        if overwrite:
            raise ConfigurationError("a log cannot be overwritten: use outputMode('append')")
        return StreamWriter(sink_options(self.options), schema)

    def _check(self, schema: StructType) -> None:
        """Refuse a schema set by ``schema(...)``, unless it is the source's own."""
        ours = self.schema().replace("`", "")
        if schema.simpleString() != ours:
            raise ConfigurationError(
                f"schema(...) cannot change the columns of logd, which are {ours}: set the option avroSchema to have "
                "the fields of values, or select columns"
            )
