"""Parses and checks ``option(...)``; options are named as in Spark's Kafka source if the meaning is the same."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attrs import frozen

from logd.clientcore.start_resolution import EARLIEST, LATEST
from logd.errors import ConfigurationError
from logd.net.credentials import find_credentials
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES
from logd.security.credentials import Credentials
from logd.spark.blocking.cluster import ClusterSettings
from logd.spark.blocking.offsets import OffsetLimits, parse_by_timestamp, parse_offsets, parse_timestamp
from logd.spark.blocking.producing import LARGEST_BATCH
from logd.spark.blocking.ranges import DEFAULT_RANGE_BYTES
from logd.spark.blocking.reading import ReadSettings
from logd.spark.blocking.registry import TIMEOUT
from logd.spark.blocking.schema_lookup import SchemaText
from logd.spark.blocking.subscription import SourceSubscription, parse_subscription
from logd.spark.worker.registry_options import SchemaOptions, registry_options

#: The default brokers.
BROKER_VARIABLE = "LOGD_BROKER"
DEFAULT_BROKER = "127.0.0.1:6667"

_CLUSTER = (
    "brokers",
    "tls",
    "tls.ca",
    "tls.certificate",
    "tls.key",
    "user",
    "passwordFile",
    "connectTimeoutMs",
    "requestTimeoutMs",
    "retryTimeoutMs",
)
SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")
_READ = (
    *SUBSCRIPTIONS,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "includeValues",
    "avroSchema",
    "registry",
    "readerSchema",
    "registryTimeoutMs",
    "mode",
    "columnNameOfCorruptRecord",
    "columnNameOfCorruptReason",
    "minPartitions",
    "maxBytesPerPartition",
    "fetchBytes",
    "rowsPerBatch",
    "maxDecompressedBytes",
    "maxDecompressedMessages",
)
BATCH_OPTIONS = (*_CLUSTER, *_READ, "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
STREAM_OPTIONS = (*_CLUSTER, *_READ, "maxBytesPerTrigger", "maxOffsetsPerTrigger")
SINK_OPTIONS = (*_CLUSTER, "topic", "compression", "batchBytes")
ALL_OPTIONS = tuple(dict.fromkeys((*BATCH_OPTIONS, *STREAM_OPTIONS, *SINK_OPTIONS)))

#: The modes for a value that does not decode, as in Spark's readers.
PERMISSIVE = "PERMISSIVE"
DROPMALFORMED = "DROPMALFORMED"
FAILFAST = "FAILFAST"
MODES = (PERMISSIVE, DROPMALFORMED, FAILFAST)

#: The options that name columns for values that do not decode.
_CORRUPT = ("columnNameOfCorruptRecord", "columnNameOfCorruptReason")

#: The column for the bytes of a value that did not decode, unless another name is given.
CORRUPT_RECORD = "_corrupt_record"

#: Options of Spark's Kafka source (in lower case, by their beginnings), and their replacements here.
_KAFKAS = {
    "kafka.bootstrap.servers": "the option 'brokers' names the brokers, as HOST:PORT, separated by commas",
    "kafka.ssl.": "TLS is set by tls, tls.ca, tls.certificate and tls.key",
    "kafka.security.": "TLS is set by tls, tls.ca, tls.certificate and tls.key",
    "password": "a password in an option may show in plans and logs: name a file by passwordFile, or set "
    "LOGD_PASSWORD_FILE or LOGD_PASSWORD in the environment of the driver",
    "kafka.sasl.": "the user is set by user and passwordFile",
    "kafka.group.id": "a reader is in no group: the position of a stream is in its checkpoint",
    "groupidprefix": "a reader is in no group: the position of a stream is in its checkpoint",
    "kafka.auto.offset.reset": "the option 'startingOffsets' says where reading begins",
    "kafka.": "logd has none of the settings of Kafka's clients; its own are in docs/spark.md",
    "minoffsetspertrigger": "a micro-batch has no minimum size; maxOffsetsPerTrigger sets the maximum",
    "maxtriggerdelay": "a micro-batch has no minimum size, so a stream never waits for one",
    "startingoffsetsbytimestampstrategy": "a time after all messages means the end of the log",
    "fetchoffset.": "the option 'retryTimeoutMs' sets how long a reader waits for a broker",
    "kafkaconsumer.polltimeoutms": "the option 'requestTimeoutMs' bounds one request",
}

#: Options that Spark itself adds to those of a sink.
_SPARKS = ("path", "checkpointLocation")


@frozen(kw_only=True)
class ColumnOptions:
    """The options that decide on the columns and their contents."""

    include_headers: bool = False
    #: False: no columns key and value. Spark does not say which columns a query needs, so a reader has to be told.
    include_values: bool = True
    avro_schema: str | None = None
    registry: SchemaOptions | None = None
    #: The reader's schema, once it is looked up in the registry.
    reader: SchemaText | None = None
    #: The mode for a value that does not decode, one of MODES.
    mode: str = FAILFAST
    #: The name of the column for its bytes; None for no such column.
    corrupt_column: str | None = None
    #: The name of the column for the reason; None for no such column.
    reason_column: str | None = None

    @property
    def further_columns(self) -> tuple[tuple[str, str], ...]:
        """The columns for values that do not decode, with their types in Spark's words."""
        named = ((self.corrupt_column, "binary"), (self.reason_column, "string"))
        return tuple((name, kind) for name, kind in named if name is not None)


@frozen(kw_only=True)
class ReadOptions:
    """Options of a reader; sent to the executors."""

    cluster: ClusterSettings
    subscription: SourceSubscription
    starting: OffsetLimits
    ending: OffsetLimits
    reading: ReadSettings
    shape: ColumnOptions
    min_partitions: int
    range_bytes: int
    #: Bytes of log, or an approximate number of messages, in one micro-batch of a stream; None for no limit.
    trigger_bytes: int | None
    trigger_messages: int | None


@frozen(kw_only=True)
class SinkOptions:
    """Options of a writer; sent to the executors."""

    cluster: ClusterSettings
    #: For rows without a column ``topic``, or with null in it.
    topic: str | None
    compression: str
    batch_bytes: int


def read_options(options: Mapping[str, str], streaming: bool) -> ReadOptions:
    """Read the options of a batch or stream reader. Raises ConfigurationError."""
    given = _Given(options, STREAM_OPTIONS if streaming else BATCH_OPTIONS, "a stream" if streaming else "a batch")
    fail = given.switch("failOnDataLoss", True)
    if streaming and given.text("maxBytesPerTrigger") and given.text("maxOffsetsPerTrigger"):
        raise ConfigurationError(
            "maxBytesPerTrigger and maxOffsetsPerTrigger both limit a micro-batch: give one of them"
        )
    shape = _shape(given)
    return ReadOptions(
        cluster=_cluster(given),
        subscription=_subscription(given),
        starting=given.offsets("starting", "latest" if streaming else "earliest", None if streaming else LATEST),
        ending=OffsetLimits.of("latest") if streaming else given.offsets("ending", "latest", EARLIEST),
        reading=ReadSettings(
            fail_on_data_loss=fail,
            fetch_bytes=given.whole("fetchBytes", 2 << 20, 1 << 10, 64 << 20),
            rows=given.whole("rowsPerBatch", 8192, 1, 1_000_000),
            include_values=shape.include_values,
            max_decompressed=given.whole("maxDecompressedBytes", DEFAULT_MAX_DECOMPRESSED, 1, 1 << 31),
            max_decompressed_messages=given.whole(
                "maxDecompressedMessages", DEFAULT_MAX_DECOMPRESSED_MESSAGES, 1, 1 << 31
            ),
        ),
        shape=shape,
        min_partitions=given.whole("minPartitions", 1, 1, 1_000_000),
        range_bytes=given.whole("maxBytesPerPartition", DEFAULT_RANGE_BYTES, 1, 1 << 40),
        trigger_bytes=given.whole("maxBytesPerTrigger", 0, 1, 1 << 50) or None if streaming else None,
        trigger_messages=given.whole("maxOffsetsPerTrigger", 0, 1, 1 << 50) or None if streaming else None,
    )


def shape_options(options: Mapping[str, str]) -> ColumnOptions:
    """Read the options that decide the schema. Raises ConfigurationError."""
    return _shape(_Given(options, ALL_OPTIONS, "a data frame", _SPARKS))


def _shape(given: _Given) -> ColumnOptions:
    avro, mode = given.text("avroSchema"), (given.text("mode") or FAILFAST).upper()
    registry = _registry(given)
    if mode not in MODES:
        raise ConfigurationError(f"option mode = {mode[:200]!r} is not allowed; allowed is {', '.join(MODES)}")
    if avro is None and registry is None and any(given.text(name) for name in ("mode", *_CORRUPT)):
        raise ConfigurationError(
            f"options mode, {' and '.join(_CORRUPT)} need avroSchema or registry: without them values are bytes"
        )
    column, reason = (given.text(name) for name in _CORRUPT)
    for name, text in zip(_CORRUPT, (column, reason), strict=True):
        if text and mode != PERMISSIVE:
            raise ConfigurationError(f"option {name} needs mode={PERMISSIVE}")
    headers, values = given.switch("includeHeaders", False), given.switch("includeValues", True)
    if not values and (headers or avro is not None or registry is not None):
        raise ConfigurationError("option includeValues=false excludes includeHeaders=true, avroSchema and registry")
    if mode == PERMISSIVE:
        column = column or CORRUPT_RECORD
    return ColumnOptions(
        include_headers=headers,
        include_values=values,
        avro_schema=avro,
        registry=registry,
        mode=mode,
        corrupt_column=column,
        reason_column=reason,
    )


def _registry(given: _Given) -> SchemaOptions | None:
    url = given.text("registry")
    if url is None:
        for name in ("readerSchema", "registryTimeoutMs"):
            if given.text(name):
                raise ConfigurationError(f"option {name} needs registry, the URL of a schema registry")
        return None
    if given.text("avroSchema"):
        raise ConfigurationError(
            "options registry and avroSchema exclude each other: with a registry each message names its schema, and "
            "readerSchema is the one by which all are read"
        )
    timeout = given.whole("registryTimeoutMs", round(TIMEOUT * 1000), 1, 86_400_000)
    return registry_options(url, given.text("readerSchema"), timeout, _subscription(given))


def _subscription(given: _Given) -> SourceSubscription:
    return parse_subscription({name: given.text(name) for name in SUBSCRIPTIONS})


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Read the options of a writer. Raises ConfigurationError."""
    given = _Given(options, SINK_OPTIONS, "a sink", _SPARKS)
    return SinkOptions(
        cluster=_cluster(given),
        topic=given.text("topic"),
        compression=given.choice("compression", "none", ("none", "gzip", "snappy", "zstd")),
        batch_bytes=given.whole("batchBytes", 1 << 20, 1, LARGEST_BATCH),
    )


def _cluster(given: _Given) -> ClusterSettings:
    settings = ClusterSettings(
        brokers=given.text("brokers") or os.environ.get(BROKER_VARIABLE) or DEFAULT_BROKER,
        connect_timeout=given.whole("connectTimeoutMs", 10_000, 1, 86_400_000) / 1000,
        request_timeout=given.whole("requestTimeoutMs", 30_000, 1, 86_400_000) / 1000,
        retry_timeout=given.whole("retryTimeoutMs", 120_000, 0, 86_400_000) / 1000,
        tls=given.switch("tls", False),
        tls_ca=given.text("tls.ca"),
        tls_certificate=given.text("tls.certificate"),
        tls_key=given.text("tls.key"),
        credentials=_credentials(given),
    )
    settings.addresses()
    for name in ("tls.ca", "tls.certificate", "tls.key"):
        if given.text(name) is not None and not settings.secure:
            raise ConfigurationError(f"option {name} needs tls=true, or brokers=tls:HOST:PORT")
    return settings


def _credentials(given: _Given) -> Credentials | None:
    """Read the user and the password once, on the driver; the executors get them with their tasks."""
    find = find_credentials(given.text("user"), None, given.text("passwordFile"))
    return None if find is None else find()


def cluster_options(settings: ClusterSettings) -> dict[str, str]:
    """Return the options with the meaning of these settings."""
    options = {
        "brokers": settings.brokers,
        "connectTimeoutMs": str(round(settings.connect_timeout * 1000)),
        "requestTimeoutMs": str(round(settings.request_timeout * 1000)),
        "retryTimeoutMs": str(round(settings.retry_timeout * 1000)),
        "tls": "true" if settings.tls else "false",
    }
    named = {"tls.ca": settings.tls_ca, "tls.certificate": settings.tls_certificate, "tls.key": settings.tls_key}
    return options | {name: value for name, value in named.items() if value is not None}


def _of_kafka(name: str) -> str | None:
    """Return the replacement of an option of Spark's Kafka source or Kafka's clients that is unknown here."""
    for prefix, known in _KAFKAS.items():
        if name.startswith(prefix):
            return known
    return None


class _Given:
    """The given options. The case of letters in names does not matter, as everywhere in Spark."""

    def __init__(
        self, options: Mapping[str, str], allowed: tuple[str, ...], what: str, ignored: tuple[str, ...] = ()
    ) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        names = {name.lower(): name for name in allowed}
        everything = {name.lower(): name for name in ALL_OPTIONS}
        for name in self._values:
            if name in names or name in {each.lower() for each in ignored}:
                continue
            if name in everything:
                raise ConfigurationError(f"option {everything[name]!r} is not one of {what} of logd")
            if (known := _of_kafka(name)) is not None:
                raise ConfigurationError(f"option {name!r} is not known to {what} of logd: {known}")
            near = [names[each] for each in difflib.get_close_matches(name, names, 3)]
            hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(allowed)}"
            raise ConfigurationError(f"option {name!r} is not known to {what} of logd; {hint}")

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        return value.strip() if value and value.strip() else None

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise self._not_allowed(name, text, f"a whole number from {least} to {most}")
        return value

    def switch(self, name: str, default: bool) -> bool:
        text = self.choice(name, str(default).lower(), ("true", "false"))
        return text == "true"

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        text = (self.text(name) or default).lower()
        if text not in allowed:
            raise self._not_allowed(name, text, " or ".join(allowed))
        return text

    def offsets(self, which: str, default: str, senseless: int | None) -> OffsetLimits:
        """Read the limits. One time for all takes precedence over times for each, and times over offsets.

        Spark's Kafka source has the same order. ``senseless`` is the end of the log with which a read would be empty;
        it is refused.
        """
        rest = "earliest" if which == "starting" else "latest"
        readers: tuple[tuple[str, Callable[[str], OffsetLimits]], ...] = (
            (f"{which}Timestamp", parse_timestamp),
            (f"{which}OffsetsByTimestamp", partial(parse_by_timestamp, rest=rest)),
            (f"{which}Offsets", partial(parse_offsets, rest=rest)),
        )
        for name, parse in readers:
            text = self.text(name)
            if text is not None:
                try:
                    offsets = parse(text)
                except ValueError as error:
                    raise self._not_allowed(name, text, str(error)) from None
                if senseless is not None and offsets.has(senseless):
                    end = "latest" if senseless == LATEST else "earliest"
                    raise ConfigurationError(
                        f"option {name} = {text[:200]!r} is not allowed: a batch {which} at {end} "
                        f"({senseless}) would read nothing"
                    )
                return offsets
        return OffsetLimits.of(default)

    @staticmethod
    def _not_allowed(name: str, value: Any, allowed: str) -> ConfigurationError:
        return ConfigurationError(f"option {name} = {str(value)[:200]!r} is not allowed; allowed is {allowed}")
