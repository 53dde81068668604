"""Values as payloads of Avro, framed with the id of their schema."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

from logd.avro.framing import AvroError, head
from logd.avro.parsing import parse
from logd.avro.registry_client import SchemaRegistryClient
from logd.checkedjson import excerpt
from logd.protocol.optional_packages import needing


class AvroSerializer:
    """Writes values by one schema, which is registered under ``subject`` before the first.

    By custom the subject of a topic's payloads is ``<topic>-value``, that of its keys ``<topic>-key``.
    """

    def __init__(self, registry: SchemaRegistryClient, subject: str, schema: str) -> None:
        """``schema`` is the text of an Avro schema. Raises AvroError for another, MissingPackage without fastavro."""
        with needing("fastavro", "writing Avro"):
            import fastavro
        self._write: Any = fastavro.schemaless_writer
        self._registry = registry
        self._subject = subject
        self._text = schema
        self._parsed = parse(schema, {}, "the schema")

    @property
    def schema(self) -> Any:
        """The schema as fastavro takes it."""
        return self._parsed

    async def serialize(self, values: Sequence[Any]) -> list[bytes]:
        """Return a payload for each value.

        Raises AvroError that names the first value which the schema does not allow, RegistryRefusal (of code 409 for a
        schema that is not compatible with earlier ones), RegistryUnavailable.
        """
        beginning = head(await self._registry.register(self._subject, self._text))
        payloads = []
        for number, value in enumerate(values):
            stream = BytesIO()
            stream.write(beginning)
            try:
                self._write(stream, self._parsed, value)
            except Exception as error:  # fastavro raises whatever it meets
                raise AvroError(
                    f"value {number} does not fit the schema of {self._subject}: {error!r}: {excerpt(repr(value))}"
                ) from error
            payloads.append(stream.getvalue())
        return payloads
