"""The data source ``logd`` as Spark sees it: a schema, readers and writers made from options."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from logd.spark.batch import BatchReader
from logd.spark.options import read_options

#: Columns in order; ``headers`` with includeHeaders alone.
_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, next_offset bigint, timestamp timestamp"
)
_HEADERS = ", headers array<struct<key: string, value: binary>>"


class LogdDataSource(DataSource):
    """``format("logd")``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "logd"

    def schema(self) -> str:
        include = str(self.options.get("includeHeaders", "false")).strip().lower() == "true"
        return _COLUMNS + (_HEADERS if include else "")

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(read_options(self.options, streaming=False))
