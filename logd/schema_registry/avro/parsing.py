"""Reads the JSON text of an Avro schema by the rules of the Avro specification 1.12, strictly.

fastavro also parses schemas, for data whose schema is trusted: it accepts unions of two equal types, invalid names and
records without fields, and raises TypeError or KeyError for others. A registry must refuse all of these once and for
ever, so it has a parser of its own; the tests hold it equal to fastavro for schemas that both accept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define, field

from logd.checkedjson import INT32_MAX, excerpt, load_json, require_depth
from logd.schema_registry.avro.defaults import DefaultComparison
from logd.schema_registry.avro.types import (
    NO_DEFAULT,
    PRIMITIVES,
    AvroArray,
    AvroDefinition,
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
    InvalidAvroSchema,
)

#: Levels of types within types; more is refused, as every reader of a schema is recursive.
MOST_LEVELS = 64
#: Levels of JSON, those of defaults and properties included.
MOST_DEPTH = 200
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORDERS = ("ascending", "descending", "ignore")
_NAMED = ("record", "error", "enum", "fixed")
_RESERVED = {
    "array": ("type", "items"),
    "map": ("type", "values"),
    "record": ("type", "name", "namespace", "doc", "aliases", "fields"),
    "enum": ("type", "name", "namespace", "doc", "aliases", "symbols", "default"),
    "fixed": ("type", "name", "namespace", "doc", "aliases", "size"),
    "field": ("name", "type", "doc", "default", "order", "aliases"),
}

Definition = TypeVar("Definition", AvroRecord, AvroEnum, AvroFixed)


def parse_avro(text: str, known: Mapping[str, AvroDefinition] | None = None) -> AvroSchema:
    """Parse a schema; ``known`` are the types of its references by full name. Raises InvalidAvroSchema."""
    try:
        value = load_json(text)
        require_depth(value, MOST_DEPTH)
    except ValueError as error:
        raise InvalidAvroSchema(f"the schema is no JSON that is accepted: {error}") from None
    parser = _SchemaParser(dict(known or {}))
    root = parser.type_of(value, "", 0, "")
    comparison = DefaultComparison()
    for path, each in parser.with_defaults:
        if not comparison.fits(each.type, each.default):
            raise InvalidAvroSchema(
                f"the default {excerpt(each.default)} of field {each.name!r} at {path} does not fit the field's type, "
                f"{_described(each.type)}"
            )
    return AvroSchema(root, parser.defined, parser.known)


def _described(each: AvroType) -> str:
    return f"{each.kind} {each.full_name}" if isinstance(each, AvroNamed) else each.kind


@define
class _SchemaParser:
    """The state of one parse. ``path`` in its methods is the place in the schema, for error texts."""

    known: dict[str, AvroDefinition]
    defined: dict[str, AvroDefinition] = field(factory=dict)
    with_defaults: list[tuple[str, AvroField]] = field(factory=list)

    def type_of(self, value: object, namespace: str, level: int, path: str) -> AvroType:
        """Return the type that ``value`` describes, inside ``namespace``."""
        if level > MOST_LEVELS:
            raise InvalidAvroSchema(f"the schema has more than {MOST_LEVELS} levels of types within types")
        if isinstance(value, str):
            return AvroPrimitive(value) if value in PRIMITIVES else self._named(value, namespace, path)
        if isinstance(value, list):
            return self._union(value, namespace, level, path)
        if not isinstance(value, dict):
            raise InvalidAvroSchema(f"{_at(path)}: {excerpt(value)} is no type: expected a name, an object or a list")
        kind = value.get("type")
        if not isinstance(kind, str):
            raise InvalidAvroSchema(f'{_at(path)}: the object has no "type" that is a name')
        if kind in PRIMITIVES:
            return AvroPrimitive(kind, {key: each for key, each in value.items() if key != "type"})
        if kind == "array":
            items = self.type_of(_required(value, "items", path), namespace, level + 1, f"{path}/items")
            return AvroArray(items, _properties(value, kind))
        if kind == "map":
            values = self.type_of(_required(value, "values", path), namespace, level + 1, f"{path}/values")
            return AvroMap(values, _properties(value, kind))
        if kind in _NAMED:
            return self._definition(kind, value, namespace, level, path)
        return self._named(kind, namespace, path)

    def _named(self, name: str, namespace: str, path: str) -> AvroType:
        # A name without a dot is looked for in the namespace around it, then without a namespace, as Avro's Java does.
        for full in (f"{namespace}.{name}" if namespace and "." not in name else name, name):
            found = self.known.get(full)
            if found is not None:
                return found
        raise InvalidAvroSchema(
            f"{_at(path)}: {excerpt(name)} is neither a type of Avro nor defined before its use, here or in a reference"
        )

    def _union(self, value: list[object], namespace: str, level: int, path: str) -> AvroUnion:
        branches = []
        seen = set()
        for number, each in enumerate(value):
            place = f"{path}/{number}"
            branch = self.type_of(each, namespace, level + 1, place)
            if isinstance(branch, AvroUnion):
                raise InvalidAvroSchema(f"{_at(place)}: a union contains a union")
            key = branch.full_name if isinstance(branch, AvroNamed) else branch.kind
            if key in seen:
                raise InvalidAvroSchema(f"{_at(place)}: the union contains {key} twice")
            seen.add(key)
            branches.append(branch)
        return AvroUnion(tuple(branches))

    def _definition(self, kind: str, value: dict[str, Any], namespace: str, level: int, path: str) -> AvroType:
        name, namespace = _name_of(value, namespace, path)
        shared: dict[str, Any] = {
            "name": name,
            "namespace": namespace,
            "aliases": _aliases(value, namespace, path),
            "doc": _text(value, "doc", path),
            "properties": _properties(value, "record" if kind == "error" else kind),
        }
        if kind == "enum":
            return self._define(self._enum(value, shared, path), path)
        if kind == "fixed":
            size = _required(value, "size", path)
            if type(size) is not int or not 0 <= size <= INT32_MAX:
                raise InvalidAvroSchema(f"{_at(path)}: the size {excerpt(size)} is no number of bytes")
            return self._define(AvroFixed(**shared, size=size), path)
        record = AvroRecord(**shared, is_error=kind == "error")
        self._define(record, path)
        record.fields = self._fields(value, namespace, level, path)
        return record

    def _define(self, named: Definition, path: str) -> Definition:
        full = named.full_name
        if full in self.known:
            raise InvalidAvroSchema(f"{_at(path)}: {full} is defined twice")
        self.known[full] = self.defined[full] = named
        return named

    def _enum(self, value: dict[str, Any], shared: dict[str, Any], path: str) -> AvroEnum:
        symbols = _required(value, "symbols", path)
        if not isinstance(symbols, list) or not all(
            isinstance(each, str) and _NAME.fullmatch(each) for each in symbols
        ):
            raise InvalidAvroSchema(f'{_at(path)}: "symbols" is no list of names')
        if len(set(symbols)) != len(symbols):
            raise InvalidAvroSchema(f"{_at(path)}: a symbol is there twice")
        default = value.get("default")
        if default is not None and default not in symbols:
            raise InvalidAvroSchema(f"{_at(path)}: the default {excerpt(default)} is none of the symbols")
        return AvroEnum(**shared, symbols=tuple(symbols), default=default)

    def _fields(self, value: dict[str, Any], namespace: str, level: int, path: str) -> tuple[AvroField, ...]:
        listed = _required(value, "fields", path)
        if not isinstance(listed, list):
            raise InvalidAvroSchema(f'{_at(path)}: "fields" is no list')
        found: dict[str, AvroField] = {}
        for number, each in enumerate(listed):
            place = f"{path}/fields/{number}"
            if not isinstance(each, dict):
                raise InvalidAvroSchema(f"{_at(place)}: {excerpt(each)} is no field")
            name = each.get("name")
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise InvalidAvroSchema(f"{_at(place)}: {excerpt(name)} is no name of a field")
            if name in found:
                raise InvalidAvroSchema(f"{_at(place)}: the record has two fields {name!r}")
            order = each.get("order", "ascending")
            if order not in _ORDERS:
                raise InvalidAvroSchema(f"{_at(place)}: the order {excerpt(order)} is none of {', '.join(_ORDERS)}")
            made = AvroField(
                name,
                self.type_of(_required(each, "type", place), namespace, level + 1, f"{place}/type"),
                _text(each, "doc", place),
                each.get("default", NO_DEFAULT),
                order,
                _names(each.get("aliases", []), place),
                _properties(each, "field"),
            )
            if made.default is not NO_DEFAULT:
                self.with_defaults.append((place, made))
            found[name] = made
        return tuple(found.values())


def _at(path: str) -> str:
    return f"at {path or '/'}"


def _required(value: dict[str, Any], key: str, path: str) -> Any:
    if key not in value:
        raise InvalidAvroSchema(f'{_at(path)}: "{key}" is missing')
    return value[key]


def _properties(value: dict[str, Any], kind: str) -> dict[str, Any]:
    reserved = _RESERVED[kind]
    return {key: each for key, each in value.items() if key not in reserved}


def _text(value: dict[str, Any], key: str, path: str) -> str | None:
    found = value.get(key)
    if found is not None and not isinstance(found, str):
        raise InvalidAvroSchema(f'{_at(path)}: "{key}" is no text')
    return found


def _name_of(value: dict[str, Any], namespace: str, path: str) -> tuple[str, str]:
    """Return the name and the namespace of a definition: a name with dots has its namespace in it."""
    name = _required(value, "name", path)
    if isinstance(name, str) and "." in name:
        namespace, _, name = name.rpartition(".")
    elif value.get("namespace") is not None:
        namespace = value["namespace"]
    parts = [name, *namespace.split(".")] if isinstance(namespace, str) and namespace else [name, "a"]
    if not isinstance(namespace, str) or not all(isinstance(each, str) and _NAME.fullmatch(each) for each in parts):
        raise InvalidAvroSchema(
            f"{_at(path)}: {excerpt(value['name'])} in namespace {excerpt(namespace)} is no name; a name consists of "
            "letters of ASCII, digits and underscores, and does not begin with a digit"
        )
    if not namespace and name in PRIMITIVES:
        raise InvalidAvroSchema(f"{_at(path)}: {name} is a type of Avro, and cannot be defined")
    return name, namespace


def _aliases(value: dict[str, Any], namespace: str, path: str) -> tuple[str, ...]:
    listed = value.get("aliases")
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(
        isinstance(each, str) and all(_NAME.fullmatch(part) for part in each.split(".")) for each in listed
    ):
        raise InvalidAvroSchema(f'{_at(path)}: "aliases" is no list of names')
    return tuple(each if "." in each or not namespace else f"{namespace}.{each}" for each in listed)


def _names(listed: object, path: str) -> tuple[str, ...]:
    if not isinstance(listed, list) or not all(isinstance(each, str) and _NAME.fullmatch(each) for each in listed):
        raise InvalidAvroSchema(f'{_at(path)}: "aliases" is no list of names')
    return tuple(listed)
