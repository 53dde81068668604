"""Schemas of every type: parsed, with the text by which they are stored and compared, and their digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from attrs import frozen

from logd.checkedjson import load_json, require_depth
from logd.schema_registry.avro.compatibility import differences
from logd.schema_registry.avro.parsing import MOST_DEPTH, parse_avro
from logd.schema_registry.avro.text import avro_text
from logd.schema_registry.avro.types import AvroDefinition, AvroSchema, InvalidAvroSchema
from logd.schema_registry.errors import InvalidSchema
from logd.schema_registry.levels import CompatibilityLevel

AVRO = "AVRO"
JSON = "JSON"
#: The types of schemas, the default first.
SCHEMA_TYPES = (AVRO, JSON)
#: Bytes of a schema's text. Escaped in JSON it still fits into a node of ZooKeeper's, with room for a subject beside.
MOST_BYTES = 256 * 1024


@frozen
class SchemaReference:
    """A name in a schema, and the version of a subject in which it is defined."""

    name: str
    subject: str
    version: int

    def to_json(self) -> dict[str, object]:
        """Return the reference as it is stored and answered."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@frozen
class StoredSchema:
    """A schema as it was given out under an id: it never changes."""

    type: str
    text: str
    references: tuple[SchemaReference, ...] = ()

    @property
    def characters(self) -> int:
        """The characters of the text and of the references, whose names may be as long."""
        return len(self.text) + sum(len(each.name) + len(each.subject) for each in self.references)


def referred_versions(schema: StoredSchema) -> list[tuple[str, int]]:
    """Return the subjects and versions that a schema refers to, each once, whatever number of types it takes there."""
    return sorted({(each.subject, each.version) for each in schema.references})


@frozen(eq=False)
class ParsedSchema:
    """A schema that was parsed; ``avro`` is None for other types."""

    stored: StoredSchema
    #: Equal for equal schemas: SHA-256 in hexadecimal.
    digest: str
    avro: AvroSchema | None = None


def parse_schema(
    schema_type: str,
    text: str,
    references: Sequence[SchemaReference] = (),
    known: Mapping[str, AvroDefinition] | None = None,
    normalize: bool = False,
) -> ParsedSchema:
    """Parse a schema; ``known`` are the types of its references. Raises InvalidSchema."""
    if schema_type not in SCHEMA_TYPES:
        raise InvalidSchema(f"Invalid schema type {schema_type[:100]}: allowed are {', '.join(SCHEMA_TYPES)}")
    if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise InvalidSchema(f"Invalid schema: its text is longer than {MOST_BYTES} bytes")
    if normalize:
        references = sorted(set(references), key=lambda each: (each.name, each.subject, each.version))
    try:
        if schema_type == AVRO:
            avro = parse_avro(text, known)
            compact = avro_text(avro, normalize)
            return _parsed(StoredSchema(AVRO, compact, tuple(references)), compact, avro)
        value = load_json(text)
        require_depth(value, MOST_DEPTH)
        if not isinstance(value, dict | bool):
            raise ValueError("a JSON Schema is an object, true or false")
    except (InvalidAvroSchema, ValueError) as error:
        raise InvalidSchema(f"Invalid schema of type {schema_type}, details: {error}") from None
    compact = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=normalize)
    same = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return _parsed(StoredSchema(JSON, compact, tuple(references)), same, None)


def _parsed(stored: StoredSchema, same: str, avro: AvroSchema | None) -> ParsedSchema:
    if len(stored.text.encode()) > MOST_BYTES:  # as numbers are written in one way: 1e15 has three times the digits
        raise InvalidSchema(f"Invalid schema: written out, its text is longer than {MOST_BYTES} bytes")
    content = json.dumps([stored.type, same, [each.to_json() for each in stored.references]])
    return ParsedSchema(stored, hashlib.sha256(content.encode()).hexdigest(), avro)


def incompatibilities(new: ParsedSchema, old: ParsedSchema, level: CompatibilityLevel) -> list[str]:
    """Return the reasons why ``new`` may not follow ``old`` at a level, as Confluent's registry words them.

    JSON Schemas are compared for equality. Raises InvalidSchema for schemas too large to be compared.
    """
    if level is CompatibilityLevel.NONE or new.digest == old.digest:
        return []
    if new.stored.type != old.stored.type:
        return ["Incompatible because of different schema type"]
    if new.avro is None or old.avro is None:
        return ["Schemas of type JSON are compatible only if they are equal; the level NONE lets any schema follow"]
    found = []
    try:
        if level.backward:
            found += [each.describe("new", "old") for each in differences(new.avro, old.avro)]
        if level.forward:
            found += [each.describe("old", "new") for each in differences(old.avro, new.avro)]
    except InvalidAvroSchema as error:
        raise InvalidSchema(f"Invalid schema: {error}") from None
    return found
