"""Schemas of a registry as fastavro takes them: parsed once, with the types of their references."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from logd.avro.answers import MOST_LEVELS, RegisteredSchema
from logd.avro.framing import AvroError
from logd.avro.parsing import parse
from logd.avro.registry_client import SchemaRegistryClient
from logd.avro.written_values import recursive_type
from logd.deferreds.gathering import gather


@frozen
class WrittenSchema:
    """A schema as fastavro takes it. ``recursive``: values may nest deeper than fastavro's compiled reader stands."""

    schema: Any
    recursive: bool


class ParsedSchemas:
    """Parsed schemas by id."""

    def __init__(self, registry: SchemaRegistryClient) -> None:
        self._registry = registry
        self._parsed: dict[int, WrittenSchema] = {}

    async def get(self, schema_id: int) -> WrittenSchema:
        """Return the schema with an id, parsed. Raises AvroError, RegistryRefusal, RegistryUnavailable.

        AvroError also if few bytes of such a value may become endless ones.
        """
        if schema_id not in self._parsed:
            schema = await self._registry.schema(schema_id)
            if schema.type != "AVRO":
                raise AvroError(f"schema {schema_id} is of type {schema.type}, and not Avro")
            names: dict[str, Any] = {}
            await self._add_references(schema, names, set(), 0)
            found = parse(schema.text, names, f"schema {schema_id} of {self._registry.url}")
            self._parsed[schema_id] = WrittenSchema(found, bool(recursive_type(found, names)))
        return self._parsed[schema_id]

    async def _add_references(
        self, schema: RegisteredSchema, names: dict[str, Any], seen: set[tuple[str, int]], level: int
    ) -> None:
        if level > MOST_LEVELS:
            raise AvroError(f"references go on for more than {MOST_LEVELS} levels")
        wanted = [each for each in schema.references if each not in seen]
        seen.update(wanted)
        found = await gather([self._registry.version(*each) for each in wanted])
        for (subject, version), each in zip(wanted, found, strict=True):
            await self._add_references(each, names, seen, level + 1)
            parse(each.text, names, f"version {version} of {subject}")
