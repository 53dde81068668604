"""Writes a schema as the compact text by which schemas are compared and stored.

Whitespace, the order of the reserved attributes, ``{"type": "string"}`` for ``"string"`` and full names for short ones
make no difference. Documentation, aliases, defaults and properties do, unlike in the specification's Parsing Canonical
Form: a registry has to give back all of a schema. The order of attributes is that of Avro's Java implementation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from logd.schema_registry.avro.types import (
    NO_DEFAULT,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroNamed,
    AvroPrimitive,
    AvroRecord,
    AvroSchema,
    AvroType,
    AvroUnion,
)


def avro_text(schema: AvroSchema, normalize: bool = False) -> str:
    """Return the text; with ``normalize``, properties are sorted too. Types of references appear by their names."""
    writer = _Writer(set(schema.known) - set(schema.defined), normalize)
    return json.dumps(writer.value_of(schema.root, ""), separators=(",", ":"), ensure_ascii=False)


class _Writer:
    """Turns types into values of JSON; ``written`` are the types that are named from now on."""

    def __init__(self, written: set[str], normalize: bool) -> None:
        self._written = written
        self._normalize = normalize

    def value_of(self, type_: AvroType, namespace: str) -> Any:
        """Return the value for a type that stands inside ``namespace``."""
        match type_:
            case AvroPrimitive():
                properties = self._properties(type_.properties)
                return {"type": type_.kind, **properties} if properties else type_.kind
            case AvroArray():
                items = self.value_of(type_.items, namespace)
                return {"type": "array", "items": items, **self._properties(type_.properties)}
            case AvroMap():
                values = self.value_of(type_.values, namespace)
                return {"type": "map", "values": values, **self._properties(type_.properties)}
            case AvroUnion():
                return [self.value_of(each, namespace) for each in type_.branches]
        return self._named(type_, namespace)

    def _named(self, type_: AvroRecord | AvroEnum | AvroFixed, namespace: str) -> Any:
        if type_.full_name in self._written:
            return type_.name if type_.namespace == namespace else type_.full_name
        self._written.add(type_.full_name)
        kind = "error" if isinstance(type_, AvroRecord) and type_.is_error else type_.kind
        value: dict[str, Any] = {"type": kind, "name": type_.name}
        if type_.namespace != namespace:
            value["namespace"] = type_.namespace
        if type_.doc is not None:
            value["doc"] = type_.doc
        match type_:
            case AvroRecord():
                value["fields"] = [self._field(each, type_.namespace) for each in type_.fields]
            case AvroEnum():
                value["symbols"] = list(type_.symbols)
                if type_.default is not None:
                    value["default"] = type_.default
            case AvroFixed():
                value["size"] = type_.size
        value.update(self._properties(type_.properties))
        if type_.aliases:
            value["aliases"] = [_short(each, type_) for each in type_.aliases]
        return value

    def _field(self, field: AvroField, namespace: str) -> dict[str, Any]:
        value: dict[str, Any] = {"name": field.name, "type": self.value_of(field.type, namespace)}
        if field.doc is not None:
            value["doc"] = field.doc
        if field.default is not NO_DEFAULT:
            value["default"] = field.default
        if field.order != "ascending":
            value["order"] = field.order
        if field.aliases:
            value["aliases"] = list(field.aliases)
        return {**value, **self._properties(field.properties)}

    def _properties(self, properties: Mapping[str, Any]) -> Mapping[str, Any]:
        return dict(sorted(properties.items())) if self._normalize else properties


def _short(alias: str, type_: AvroNamed) -> str:
    namespace, _, name = alias.rpartition(".")
    return name if namespace == type_.namespace else alias
