"""Avro messages as people read them, by the schemas that the registry in the coordination tree has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field, frozen

from logd.avro.answers import RegisteredSchema, RegistryRefusal
from logd.avro.deserializer import AvroDeserializer
from logd.avro.framing import AvroError
from logd.errors import LogdError, UnknownTopic
from logd.protocol.message import Message
from logd.schema_registry.queries import Visibility
from logd.schema_registry.registry import SchemaRegistry
from logd.web.console.texts import as_hex, indented

#: Bytes of a message that is read; a larger one is shown in hexadecimal digits.
MOST_READ = 1 << 20
_NOT_FOUND = 40403


@frozen
class TreeSchemas:
    """The registry in this process, in the place of a client of one."""

    _registry: SchemaRegistry
    url: str = "this cluster's registry"

    async def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with an id. Raises RegistryRefusal."""
        try:
            found = await self._registry.queries.schema(schema_id)
        except LogdError as error:
            raise RegistryRefusal(str(error), _NOT_FOUND) from error
        return _registered(found)

    async def version(self, subject: str, version: int) -> RegisteredSchema:
        """Return a version of a subject, which may be deleted softly, as those may be that old schemas refer to.

        Raises RegistryRefusal.
        """
        try:
            _, found = await self._registry.queries.version(subject, version, Visibility(deleted=True))
        except LogdError as error:
            raise RegistryRefusal(str(error), _NOT_FOUND) from error
        return _registered(found)


@define(eq=False)
class AvroTexts:
    """Shows messages in Confluent's framing as JSON, each with the id of its schema."""

    _registry: SchemaRegistry
    _deserializer: AvroDeserializer = field(init=False)

    def __attrs_post_init__(self) -> None:
        schemas: Any = TreeSchemas(self._registry)
        self._deserializer = AvroDeserializer(schemas)

    async def texts(self, messages: Sequence[Message]) -> list[str]:
        """Return the text of each message; of one that cannot be read, the reason and its bytes."""
        return [await self._text(message) for message in messages]

    async def _text(self, message: Message) -> str:
        if len(message.payload or b"") > MOST_READ:
            return as_hex(message.payload)
        try:
            (value,) = await self._deserializer.deserialize([message])
        except AvroError as error:
            return f"{error}\n{as_hex(message.payload)}"
        return f"schema {value.schema_id}\n{indented(value.value)}"


def avro_texts(registry: SchemaRegistry | None) -> AvroTexts:
    """Return what shows Avro. Raises MissingPackage without fastavro, and UnknownTopic without a registry."""
    if registry is None:
        raise UnknownTopic("this broker serves no schema registry (schema.registry.enabled)")
    return AvroTexts(registry)


def _registered(found: Any) -> RegisteredSchema:
    return RegisteredSchema(found.text, found.type, tuple((each.subject, each.version) for each in found.references))
