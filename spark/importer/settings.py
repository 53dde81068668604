"""The settings of one import, as one frozen, validated object."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from attrs import field, frozen

from logd.audit.event import ALL_ORIGINS, is_name
from logd.audit.windows import DEFAULT_WIDTH, check_width
from logd.errors import ConfigurationError
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES
from logd.spark.blocking.cluster import ClusterSettings
from logd.spark.blocking.offsets import OffsetLimits
from logd.spark.blocking.registry import RegistryAddress
from logd.spark.blocking.schema_lookup import VERSION, ReaderSchema
from logd.spark.blocking.subscription import SourceSubscription
from logd.spark.importer.table_location import is_table, parse_table

FORMATS = ("parquet", "json")
#: Columns that can become folders, in this order of nesting by default.
FOLDERS = ("topic", "date", "hour")
#: The codecs of each format; the first is the default.
CODECS = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "none"),
    "json": ("gzip", "bzip2", "deflate", "none"),
}
#: Bytes of log in one task. A task writes at least one file, and a failed one begins anew.
DEFAULT_TASK_BYTES = 64 << 20


@frozen
class SchemaSettings:
    """The schema registry, and the schema by which all values of a topic are read."""

    address: RegistryAddress
    reader: ReaderSchema = field(factory=ReaderSchema)


@frozen(kw_only=True)
class ImportSettings:
    """Settings of an import. Raises ConfigurationError for a value that is not allowed."""

    subscription: SourceSubscription
    #: The target: a path of the local file system, or a URI of a directory or of a table.
    to: str
    cluster: ClusterSettings = field(factory=ClusterSettings)
    #: The start of partitions that are new to the target.
    starting: OffsetLimits = field(factory=lambda: OffsetLimits.of("earliest"))
    #: The end of what is loaded; None for the visible end of each log.
    until: OffsetLimits | None = None
    #: Load what the target lacks between ``starting`` and ``until``, below its positions, which stay.
    backfill: bool = False
    format: str = "parquet"
    #: None for the format's default.
    codec: str | None = None
    partition_by: tuple[str, ...] = FOLDERS
    #: Continue with a warning if messages were lost before they were loaded.
    accept_loss: bool = False
    dry_run: bool = False
    task_bytes: int = DEFAULT_TASK_BYTES
    #: The largest size of one compressed set after decompression, in bytes.
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED
    max_decompressed_messages: int = DEFAULT_MAX_DECOMPRESSED_MESSAGES
    #: The schemas that give values their types; None: values are bytes.
    schemas: SchemaSettings | None = None
    #: Spark's master; None for that of spark-submit, or this machine.
    master: str | None = None
    #: Publish counts of the loaded messages to ``_audit``, by windows of this many seconds, in the name of this server,
    #: by default the host's.
    audit: bool = False
    audit_window: float = DEFAULT_WIDTH / 1000
    server: str = ""
    #: Further Spark settings.
    spark: Mapping[str, str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ConfigurationError(f"format = {self.format!r} is not allowed; allowed is {', '.join(FORMATS)}")
        allowed = CODECS[self.format]
        if self.codec is not None and self.codec not in allowed:
            raise ConfigurationError(
                f"codec = {self.codec!r} is not allowed for {self.format}; allowed is {', '.join(allowed)}"
            )
        if len(set(self.partition_by)) != len(self.partition_by) or set(self.partition_by) - set(FOLDERS):
            raise ConfigurationError(
                f"partition-by = {','.join(self.partition_by)!r} is not allowed; allowed are {', '.join(FOLDERS)}, "
                "each at most once, or none"
            )
        if self.to_table:
            parse_table(self.to)
            if self.backfill:
                raise ConfigurationError(
                    f"{self.to} is a table, whose former runs may have expired, so it is not known what they had: "
                    "backfill into another table, by --from and --until"
                )
            if self.format != "parquet":
                raise ConfigurationError(
                    f"format = {self.format!r} is not allowed for a table, whose files are Parquet"
                )
        self._check_registry()
        try:
            check_width(self.audit_width)
        except ValueError as error:
            raise ConfigurationError(f"audit_window = {self.audit_window!r} s is not allowed: {error}") from None
        if not is_name(self.server) or self.server == ALL_ORIGINS:
            raise ConfigurationError(f"server = {self.server!r} is not allowed; allowed is a printable name")
        if not self.to:
            raise ConfigurationError("the target is empty: name a directory")
        if self.local_path is None and not urlsplit(self.to).path.strip("/"):
            raise ConfigurationError(f"the target {self.to!r} names no directory on that file system")

    def _check_registry(self) -> None:
        if self.schemas is None:
            return
        if self.to_table and len(self.subscription.names or ()) != 1:
            raise ConfigurationError(
                "--registry: the values of a table have one type, so import one topic alone, and each into a table of "
                "its own"
            )
        if self.format != "parquet":
            raise ConfigurationError(f"--registry writes Parquet, and not {self.format}, whose values have no types")
        if not self.to_table and self.partition_by[:1] != ("topic",):
            raise ConfigurationError(
                "--registry gives each topic a folder, as topics have schemas of their own: --partition-by begins with "
                "topic"
            )
        reader = self.schemas.reader
        if reader.kind == VERSION and len(self.subscription.names or ()) != 1:
            raise ConfigurationError(
                f"the reader's schema {reader} is a version of one topic's subject: import that topic alone"
            )

    @property
    def audit_width(self) -> int:
        """The width of the audit's windows, in ms."""
        return round(self.audit_window * 1000)

    @property
    def compression(self) -> str:
        """The codec in use."""
        return self.codec or CODECS[self.format][0]

    @property
    def to_table(self) -> bool:
        """True if the target is a table, not a folder of files."""
        return is_table(self.to)

    @property
    def local_path(self) -> str | None:
        """The target's path if it is on the local file system, else None."""
        return local_path(self.to)


def local_path(to: str) -> str | None:
    """Return the target's path on the local file system, or None if it is on another one."""
    parts = urlsplit(to)
    if not parts.scheme:
        return to
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise ConfigurationError(f"the target {to!r} names a host: write file:///path")
        return parts.path
    return None


def is_local(master: str | None) -> bool:
    """Return True if the executors of a session run on this machine and see its file system.

    Without a master this is so, except under spark-submit, which has started the JVM and names the master itself.
    """
    return master.startswith("local") if master is not None else "PYSPARK_GATEWAY_PORT" not in os.environ
