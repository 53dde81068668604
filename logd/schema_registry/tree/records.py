"""Values of the schema registry's nodes, encoded and decoded. A value of others is a ValueError, and nothing worse."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, TypeVar

from attrs import evolve, frozen

from logd.checkedjson import excerpt, load_json, whole_number
from logd.schema_registry.levels import CompatibilityLevel, RegistryMode
from logd.schema_registry.schemas import SchemaReference, StoredSchema

Choice = TypeVar("Choice", CompatibilityLevel, RegistryMode)


@frozen
class SubjectVersion:
    """A version of a subject: the id of its schema, and whether it is deleted softly."""

    version: int
    id: int
    deleted: bool = False


@frozen
class RegistrySettings:
    """The settings of the registry."""

    compatibility: CompatibilityLevel = CompatibilityLevel.BACKWARD
    mode: RegistryMode = RegistryMode.READWRITE

    def encode(self) -> bytes:
        """Return the node's value."""
        return json.dumps({"compatibility": self.compatibility.value, "mode": self.mode.value}).encode()

    @classmethod
    def decode(cls, data: bytes) -> RegistrySettings:
        """Decode a node's value; raise ValueError."""
        value = _object(data)
        return cls(
            _choice(CompatibilityLevel, value.get("compatibility")) or cls().compatibility,
            _choice(RegistryMode, value.get("mode")) or cls().mode,
        )


@frozen
class SubjectState:
    """A subject: its versions in ascending order, and its own settings, None where the registry's apply."""

    versions: tuple[SubjectVersion, ...] = ()
    compatibility: CompatibilityLevel | None = None
    mode: RegistryMode | None = None

    @property
    def live(self) -> tuple[SubjectVersion, ...]:
        """The versions that are not deleted."""
        return tuple(each for each in self.versions if not each.deleted)

    @property
    def next_version(self) -> int:
        """The version that is registered next."""
        return self.versions[-1].version + 1 if self.versions else 1

    def find(self, version: int) -> SubjectVersion | None:
        """Return a version, deleted or not; None if there is none."""
        return next((each for each in self.versions if each.version == version), None)

    def find_id(self, schema_id: int, deleted: bool = False) -> SubjectVersion | None:
        """Return the latest version with a schema; ``deleted``: versions deleted softly count."""
        found = (each for each in reversed(self.versions) if each.id == schema_id and (deleted or not each.deleted))
        return next(found, None)

    def with_version(self, version: SubjectVersion) -> SubjectState:
        """Return this subject with one more version, or one changed."""
        others = [each for each in self.versions if each.version != version.version]
        return evolve(self, versions=tuple(sorted([*others, version], key=lambda each: each.version)))

    def without(self, versions: Iterable[int]) -> SubjectState:
        """Return this subject without some of its versions."""
        gone = set(versions)
        return evolve(self, versions=tuple(each for each in self.versions if each.version not in gone))

    def encode(self) -> bytes:
        """Return the node's value."""
        value: dict[str, Any] = {"versions": [[each.version, each.id, int(each.deleted)] for each in self.versions]}
        if self.compatibility is not None:
            value["compatibility"] = self.compatibility.value
        if self.mode is not None:
            value["mode"] = self.mode.value
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> SubjectState:
        """Decode a node's value; raise ValueError."""
        value = _object(data)
        rows = value.get("versions")
        if not isinstance(rows, list):
            raise ValueError(f"{excerpt(rows)} are no versions")
        versions = []
        for row in rows:
            if not isinstance(row, list) or len(row) != 3:
                raise ValueError(f"{excerpt(row)} is no version")
            version, schema_id, deleted = (whole_number(each) for each in row)
            versions.append(SubjectVersion(version, schema_id, bool(deleted)))
        if any(one.version >= other.version for one, other in pairwise(versions)):
            raise ValueError("the versions do not ascend")
        return cls(
            tuple(versions),
            _choice(CompatibilityLevel, value.get("compatibility")),
            _choice(RegistryMode, value.get("mode")),
        )


def encode_schema(schema: StoredSchema) -> bytes:
    """Return the value of a schema's node."""
    value: dict[str, Any] = {"type": schema.type, "schema": schema.text}
    if schema.references:
        value["references"] = [each.to_json() for each in schema.references]
    return json.dumps(value, ensure_ascii=False).encode()


def decode_schema(data: bytes) -> StoredSchema:
    """Decode the value of a schema's node; raise ValueError."""
    value = _object(data)
    kind, text = value.get("type"), value.get("schema")
    if not isinstance(kind, str) or not isinstance(text, str):
        raise ValueError("there is no type or no schema")
    return StoredSchema(kind, text, references_of(value.get("references")))


def references_of(value: object) -> tuple[SchemaReference, ...]:
    """Return the references in a value of JSON, None for none; raise ValueError."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError(f"{excerpt(value)} is no list of references")
    found = []
    for each in value:
        if not isinstance(each, dict):
            raise ValueError(f"{excerpt(each)} is no reference")
        name, subject, version = each.get("name"), each.get("subject"), each.get("version")
        if not isinstance(name, str) or not isinstance(subject, str):
            raise ValueError("a reference has a name, a subject and a version")
        found.append(SchemaReference(name, subject, -1 if version == -1 else whole_number(version)))
    return tuple(found)


def _object(data: bytes) -> dict[str, Any]:
    value = load_json(data)
    if not isinstance(value, dict):
        raise ValueError(f"{excerpt(value)} is no object")
    return value


def _choice(choices: type[Choice], name: object) -> Choice | None:
    if name is None:
        return None
    try:
        return choices(name)
    except ValueError:
        raise ValueError(f"{excerpt(name)} is no {choices.__name__}") from None
