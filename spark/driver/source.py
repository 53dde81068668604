"""The data source ``logd``: makes its schema, readers and writers from options."""

from __future__ import annotations

from attrs import evolve
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from logd.errors import ConfigurationError
from logd.spark.blocking.registry import BlockingRegistry
from logd.spark.blocking.schema_lookup import SchemaLookup, SchemaText
from logd.spark.driver.batch import BatchReader
from logd.spark.driver.sink import BatchWriter, StreamWriter
from logd.spark.driver.stream import StreamReader
from logd.spark.driver.topic_sql import quoted
from logd.spark.worker.arrow import COLUMNS
from logd.spark.worker.avro import AvroValues
from logd.spark.worker.options import ReadOptions, read_options, shape_options, sink_options
from logd.spark.worker.registered import reader_type
from logd.spark.worker.registry_options import SchemaOptions

#: Columns in order: those of Spark's Kafka source, with its meaning, then logd's; ``headers`` only with includeHeaders.
_CONTENTS = "key:binary,value:{},"
_COLUMNS = (
    "topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,id:bigint,next_position:bigint"
)
_HEADERS = ",headers:array<struct<key:string,value:binary>>"


class LogdDataSource(DataSource):
    """``format("logd")``."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._reader: SchemaText | None = None

    @classmethod
    def name(cls) -> str:
        return "logd"

    def schema(self) -> str:
        shape = shape_options(self.options)
        value = "binary"
        if shape.avro_schema is not None:
            value = AvroValues(shape.avro_schema).ddl
        elif shape.registry is not None:
            value = reader_type(self._reader_schema(shape.registry)).column.ddl
        contents = _CONTENTS.format(value) if shape.include_values else ""
        columns = contents + _COLUMNS + (_HEADERS if shape.include_headers else "")
        taken = {each.lower() for each in COLUMNS}
        for name, kind in shape.further_columns:
            if name.lower() in taken:
                raise ConfigurationError(f"the column {name!r} for what does not decode has the name of another column")
            taken.add(name.lower())
            columns += f",{quoted(name)}:{kind}"
        return f"struct<{columns}>"

    def _reader_schema(self, registry: SchemaOptions) -> SchemaText:
        """Return the reader's schema. It is looked up once for a data frame: Spark sends this object from here on."""
        if self._reader is None:
            self._reader = SchemaLookup(BlockingRegistry(registry.settings)).reader(registry.wanted, registry.topic)
        return self._reader

    def _read_options(self, streaming: bool) -> ReadOptions:
        options = read_options(self.options, streaming)
        if options.shape.registry is None:
            return options
        return evolve(options, shape=evolve(options.shape, reader=self._reader_schema(options.shape.registry)))

    def reader(self, schema: StructType) -> DataSourceReader:
        self._check(schema)
        return BatchReader(self._read_options(streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        self._check(schema)
        return StreamReader(self._read_options(streaming=True))

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
                f"schema(...) cannot change the columns of logd, which are {ours}: set the option avroSchema or "
                "registry to have the fields of values, or select columns"
            )
