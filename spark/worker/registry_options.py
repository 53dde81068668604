"""The options of a reader with a schema registry, read and checked together."""

from __future__ import annotations

from attrs import frozen

from logd.errors import ConfigurationError
from logd.net.credentials import REGISTRY_PREFIX, credentials_of_environment
from logd.spark.blocking.registry import RegistryAddress
from logd.spark.blocking.schema_lookup import ID, TEXT, ReaderSchema, parse_reader_schema
from logd.spark.blocking.subscription import SourceSubscription


@frozen(kw_only=True)
class SchemaOptions:
    """The registry, and the reader's schema that is asked for; ``topic`` is "" when several are read."""

    settings: RegistryAddress
    wanted: ReaderSchema
    topic: str


def registry_options(url: str, wanted: str | None, timeout_ms: int, subscription: SourceSubscription) -> SchemaOptions:
    """Read the options. Raises ConfigurationError for one that is not allowed, or if no topic decides the schema."""
    try:
        reader = ReaderSchema() if wanted is None else parse_reader_schema(wanted)
    except ValueError as error:
        raise ConfigurationError(f"option readerSchema = {str(wanted)[:200]!r} is not allowed: {error}") from None
    names = subscription.names or ()
    topic = names[0] if len(names) == 1 else ""
    if not topic and reader.kind not in (ID, TEXT):
        raise ConfigurationError(
            "several topics may have several schemas, and a data frame has one: read one topic, or name the schema for "
            "all of them by readerSchema=id:NUMBER or as JSON"
        )
    address = RegistryAddress(url, timeout_ms / 1000, credentials_of_environment(REGISTRY_PREFIX))
    return SchemaOptions(settings=address, wanted=reader, topic=topic)
