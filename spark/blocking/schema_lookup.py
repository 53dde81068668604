"""Looks up schemas in a registry with all that they refer to, as texts that are sent to the executors."""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen

from logd.avro.answers import MOST_LEVELS, UNKNOWN, RegisteredSchema, RegistryRefusal, RegistryUnavailable, read_schema
from logd.avro.framing import AvroError
from logd.checkedjson import INT32_MAX, excerpt
from logd.errors import ConfigurationError
from logd.spark.blocking.registry import BlockingRegistry

#: The latest versions of a subject that the driver looks up for the executors; a task asks for others itself.
MOST_SHIPPED = 100

#: Kinds of ReaderSchema.
LATEST, VERSION, ID, TEXT = "latest", "version", "id", "text"


@frozen
class SchemaText:
    """A schema, and the schemas that it refers to, each after those that it refers to itself (JSON)."""

    text: str
    references: tuple[str, ...] = ()


@frozen
class ReaderSchema:
    """The schema by which values are read: the latest of the topic's subject, a version of it, an id, or a text."""

    kind: str = LATEST
    number: int = 0
    text: str = ""

    def __str__(self) -> str:
        if self.kind == TEXT:
            return "a given schema"
        return self.kind if self.kind == LATEST else f"{self.kind}:{self.number}"


def parse_reader_schema(text: str) -> ReaderSchema:
    """Read ``latest``, ``version:3``, ``id:17`` or a schema as JSON. Raises ValueError that says what is allowed."""
    text = text.strip()
    if text == LATEST:
        return ReaderSchema()
    kind, colon, number = text.partition(":")
    if colon and kind in (VERSION, ID) and number.isascii() and number.isdigit() and 0 < int(number[:11]) <= INT32_MAX:
        return ReaderSchema(kind, int(number))
    if text[:1] in ("{", "[", '"'):
        return ReaderSchema(TEXT, text=text)
    raise ValueError(f"allowed is {LATEST}, {VERSION}:NUMBER, {ID}:NUMBER, or an Avro schema as JSON")


def subject_of(topic: str) -> str:
    """Return the subject of a topic's values, by Confluent's custom."""
    return f"{topic}-value"


@define(eq=False)
class SchemaLookup:
    """Looks up schemas. A schema never changes once it has an id, so each is asked for once."""

    registry: BlockingRegistry
    _texts: dict[int, SchemaText] = field(factory=dict, init=False)
    _versions: dict[tuple[str, int], tuple[int, RegisteredSchema]] = field(factory=dict, init=False)

    def reader(self, wanted: ReaderSchema, topic: str) -> SchemaText:
        """Return the reader's schema for a topic.

        Raises ConfigurationError if the registry has none, RegistryUnavailable, RegistryRefusal, AvroError.
        """
        if wanted.kind == TEXT:
            return SchemaText(wanted.text)
        where = self.registry.settings.shown
        try:
            if wanted.kind == ID:
                return self.by_id(wanted.number)
            version = LATEST if wanted.kind == LATEST else str(wanted.number)
            answer = self.registry.get("subjects", subject_of(topic), "versions", version)
            return self._resolved(read_schema(where, answer), f"{version} version of {subject_of(topic)}")
        except RegistryRefusal as error:
            if error.code not in UNKNOWN:
                raise
            raise ConfigurationError(
                f"the schema registry at {where} has no schema {wanted} for topic {topic!r} (subject "
                f"{subject_of(topic)!r}): {error}; register one, or name the reader's schema"
            ) from None

    def pinned(self, wanted: ReaderSchema, topic: str) -> ReaderSchema:
        """Return a name for the reader's schema that does not change: the version that is the latest one now.

        Raises the errors of ``reader``.
        """
        if wanted.kind != LATEST:
            return wanted
        self.reader(wanted, topic)  # which words the refusal of a topic without schemas
        answer = self.registry.get("subjects", subject_of(topic), "versions", LATEST)
        version = answer.get("version") if isinstance(answer, dict) else None
        if type(version) is not int or not 0 < version <= INT32_MAX:
            raise RegistryUnavailable(f"{self.registry.settings.shown} gave no version but {excerpt(version)}")
        return ReaderSchema(VERSION, version)

    def written(self, topic: str) -> dict[int, SchemaText]:
        """Return the latest versions of a topic's subject by their ids, without those that are not Avro."""
        subject = subject_of(topic)
        try:
            versions = self.registry.get("subjects", subject, "versions", query="?deleted=true")
        except RegistryRefusal as error:
            if error.code not in UNKNOWN:
                raise
            return {}
        if not isinstance(versions, list) or not all(type(each) is int for each in versions):
            raise RegistryUnavailable(f"{self.registry.settings.shown} answers no versions but {excerpt(versions)}")
        found = {}
        for version in sorted(versions)[-MOST_SHIPPED:]:
            try:
                schema_id, registered = self._version(subject, version)
                if schema_id not in self._texts:
                    self._texts[schema_id] = self._resolved(registered, f"version {version} of {subject}")
                found[schema_id] = self._texts[schema_id]
            except (AvroError, RegistryRefusal):
                continue  # a task that meets such a message asks again, and has the reason
        return found

    def by_id(self, schema_id: int) -> SchemaText:
        """Return the schema with an id. Raises RegistryUnavailable, RegistryRefusal, AvroError if it is not Avro."""
        if schema_id not in self._texts:
            answer = self.registry.get("schemas", "ids", str(schema_id))
            registered = read_schema(self.registry.settings.shown, answer)
            self._texts[schema_id] = self._resolved(registered, f"schema {schema_id}")
        return self._texts[schema_id]

    def _version(self, subject: str, version: int) -> tuple[int, RegisteredSchema]:
        key = subject, version
        if key not in self._versions:
            answer: Any = self.registry.get("subjects", subject, "versions", str(version), query="?deleted=true")
            registered = read_schema(self.registry.settings.shown, answer)
            schema_id = answer.get("id")
            if type(schema_id) is not int or not 0 <= schema_id <= INT32_MAX:
                raise RegistryUnavailable(f"{self.registry.settings.shown} gave no id but {excerpt(schema_id)}")
            self._versions[key] = schema_id, registered
        return self._versions[key]

    def _resolved(self, schema: RegisteredSchema, what: str) -> SchemaText:
        if schema.type != "AVRO":
            raise AvroError(f"{what} is of type {schema.type}, and not Avro")
        texts: list[str] = []
        self._add_references(schema, texts, set(), 0)
        return SchemaText(schema.text, tuple(texts))

    def _add_references(
        self, schema: RegisteredSchema, texts: list[str], seen: set[tuple[str, int]], level: int
    ) -> None:
        if level > MOST_LEVELS:
            raise AvroError(f"references go on for more than {MOST_LEVELS} levels")
        for reference in schema.references:
            if reference not in seen:
                seen.add(reference)
                _, registered = self._version(*reference)
                self._add_references(registered, texts, seen, level + 1)
                texts.append(registered.text)
