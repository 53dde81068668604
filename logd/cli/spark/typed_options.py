"""The options of ``logd import`` for typed values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logd.errors import ConfigurationError

if TYPE_CHECKING:
    from logd.spark.importer.settings import SchemaSettings

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--registry",
        metavar="URL",
        help="Decode values by the schemas of this schema registry and write typed Parquet: a column value with the "
        "fields of the topic's reader schema. Messages that cannot be decoded go to DIR/run=N/_quarantine, with the "
        "reason. In an Iceberg table, which takes one topic, they are rows with columns reason and payload.",
    ),
    click.option(
        "--reader-schema",
        default="latest",
        show_default=True,
        metavar="latest|version:N|id:N|FILE",
        help="With --registry: the schema by which all messages of a topic are read. FILE is an Avro schema.",
    ),
)


def typed_options(function: F) -> F:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def schema_settings(registry: str | None, reader_schema: str, timeout: float) -> SchemaSettings | None:
    """Return what the options say, None without a registry. Raises ConfigurationError; ``timeout`` is in seconds."""
    from logd.spark.blocking.registry import RegistryAddress
    from logd.spark.blocking.schema_lookup import LATEST, parse_reader_schema
    from logd.spark.importer.settings import SchemaSettings

    if registry is None:
        if reader_schema != LATEST:
            raise ConfigurationError("--reader-schema needs a schema registry: name it by --registry")
        return None
    text = reader_schema
    try:
        if Path(text).is_file():
            text = Path(text).read_text(encoding="utf-8")
        reader = parse_reader_schema(text)
    except (ValueError, OSError) as error:
        raise ConfigurationError(
            f"--reader-schema {reader_schema[:200]!r} is not allowed, and is no file with a schema: {error}"
        ) from None
    return SchemaSettings(RegistryAddress(registry, timeout), reader)
