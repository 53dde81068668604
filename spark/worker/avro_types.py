"""The types of an Avro schema as columns: in Spark's words and in Arrow's, and what fits neither.

A column of Spark's has one type of a fixed depth. So a recursive type is refused, and a union of several types becomes
a struct with a field for each of them, of which one is set, as in Spark's own Avro reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from attrs import define, field, frozen

from logd.avro.framing import AvroError
from logd.avro.parsing import parse
from logd.avro.written_values import recursive_type
from logd.errors import ConfigurationError

#: Columns within columns of one value; a schema may name a type many times in many types.
MOST_COLUMNS = 10_000
#: The largest precision of a decimal, in Spark and in Arrow's 128 bits.
_MOST_DIGITS = 38

_PRIMITIVES = {
    "boolean": ("boolean", pa.bool_()),
    "int": ("int", pa.int32()),
    "long": ("bigint", pa.int64()),
    "float": ("float", pa.float32()),
    "double": ("double", pa.float64()),
    "bytes": ("binary", pa.binary()),
    "string": ("string", pa.string()),
}
#: Logical types with a column of their own: in Spark's words, in Arrow's, and in Arrow's while values are made, where
#: a whole number counts in the unit of the schema.
_LOGICAL: dict[tuple[str, Any], tuple[str, Any, Any]] = {
    ("int", "date"): ("date", pa.date32(), pa.date32()),
    ("long", "timestamp-millis"): ("timestamp", pa.timestamp("us", tz="UTC"), pa.timestamp("ms", tz="UTC")),
    ("long", "timestamp-micros"): ("timestamp", pa.timestamp("us", tz="UTC"), pa.timestamp("us", tz="UTC")),
    ("long", "local-timestamp-millis"): ("timestamp_ntz", pa.timestamp("us"), pa.timestamp("ms")),
    ("long", "local-timestamp-micros"): ("timestamp_ntz", pa.timestamp("us"), pa.timestamp("us")),
}
#: The logical types that the reader of Avro is to see; all others are read as the type beneath, as the specification
#: demands of those that an implementation does not know.
_SEEN = {logical for _, logical in _LOGICAL} | {"decimal"}
#: Types of which a union has a column in common.
_MERGED = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
#: Types of Python by the kind of a column.
_PYTHON: dict[str, type[Any] | tuple[type[Any], ...]] = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "bytes": bytes,
    "fixed": bytes,
    "string": str,
    "enum": str,
    "array": list,
    "map": dict,
    "record": dict,
    "date": date,
    "timestamp": datetime,
    "decimal": Decimal,
}

Convert = Callable[[Any], Any]


@frozen
class ColumnType:
    """A type as a column: ``ddl`` for Spark, ``arrow`` for Arrow, ``made`` for Arrow while values are made."""

    ddl: str
    arrow: Any
    made: Any


@frozen
class NamedSchema:
    """A schema as fastavro takes it, and the types that it names."""

    schema: Any
    names: Mapping[str, Any]


def parsed(text: str, references: tuple[str, ...], what: str) -> NamedSchema:
    """Parse a schema and those that it refers to. Raises AvroError, MissingPackage without fastavro."""
    names: dict[str, Any] = {}
    for each in references:
        parse(_without_unseen(each, what), names, f"a schema that {what} refers to")
    return NamedSchema(parse(_without_unseen(text, what), names, what), names)


def _without_unseen(text: str, what: str) -> str:
    """Return the schema without logical types that are read as the type beneath."""
    try:
        return json.dumps(_cleaned(json.loads(text)))
    except (ValueError, RecursionError) as error:
        raise AvroError(f"{what} is not JSON: {error}") from None


def _cleaned(value: Any) -> Any:
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    if isinstance(value, dict):
        return {key: _cleaned(each) for key, each in value.items() if key != "logicalType" or str(each) in _SEEN}
    return value


@define(eq=False)
class _Walk:
    """One walk through a schema. ``what`` names it in errors; ``tagged`` is set once a union needs its types' names."""

    names: Mapping[str, Any]
    what: str
    columns: int = 0
    tagged: bool = False
    _open: list[str] = field(factory=list)

    def of(self, schema: Any, where: str) -> tuple[ColumnType, Convert | None]:
        """Return the type of a schema at ``where``, and a function for values with tags."""
        self.columns += 1
        if self.columns > MOST_COLUMNS:
            raise ConfigurationError(f"{self.what} has more than {MOST_COLUMNS} columns within columns")
        if isinstance(schema, list):
            return self._union(schema, where)
        if isinstance(schema, str) and schema not in _PRIMITIVES and schema in self.names:
            schema = self.names[schema]
        kind, logical = _kind_of(schema)
        if not isinstance(kind, str) or kind in self.names:
            return self.of(kind, where)
        if (kind, logical) in _LOGICAL:
            return ColumnType(*_LOGICAL[kind, logical]), None
        if logical == "decimal" and kind in ("bytes", "fixed"):
            return self._decimal(schema, where), _untagged if kind == "fixed" else None
        if kind in _PRIMITIVES:
            ddl, arrow = _PRIMITIVES[kind]
            return ColumnType(ddl, arrow, arrow), None
        if kind == "enum":
            return ColumnType("string", pa.string(), pa.string()), _untagged
        if kind == "fixed":
            return ColumnType("binary", pa.binary(), pa.binary()), _untagged
        if kind == "array":
            return self._array(schema, where)
        if kind == "map":
            return self._map(schema, where)
        if kind in ("record", "error"):
            return self._record(schema, where)
        raise self._refused(where, f"is {kind}, which no column can hold")

    def _array(self, schema: Any, where: str) -> tuple[ColumnType, Convert | None]:
        item, convert = self.of(schema["items"], f"{where}[]")
        made = ColumnType(
            f"array<{item.ddl}>",
            pa.list_(pa.field("element", item.arrow)),
            pa.list_(pa.field("element", item.made)),
        )
        return made, None if convert is None else lambda value: value and [convert(each) for each in value]

    def _map(self, schema: Any, where: str) -> tuple[ColumnType, Convert | None]:
        value, convert = self.of(schema["values"], f"{where}{{}}")
        made = ColumnType(
            f"map<string,{value.ddl}>",
            pa.map_(pa.string(), pa.field("value", value.arrow)),
            pa.map_(pa.string(), pa.field("value", value.made)),
        )
        # Arrow takes the pairs of a map; a dict is taken too, but not by all of its releases.
        return made, None if convert is None else lambda given: given and {k: convert(v) for k, v in given.items()}

    def _record(self, schema: Any, where: str) -> tuple[ColumnType, Convert | None]:
        name = schema["name"]
        if name in self._open:
            raise self._refused(where, f"contains {name} again, and a column of Spark's cannot contain itself")
        if not schema["fields"]:
            raise self._refused(where, "is a record without fields, which a column of Spark's cannot be")
        seen: dict[str, str] = {}
        self._open.append(name)
        fields = []
        for each in schema["fields"]:
            other = seen.setdefault(each["name"].lower(), each["name"])
            if other != each["name"]:
                raise self._refused(where, f"has fields {other} and {each['name']}, which are one name to Spark")
            fields.append((each["name"], *self.of(each["type"], f"{where}.{each['name']}")))
        self._open.pop()
        converted = [(field_name, convert) for field_name, _, convert in fields if convert is not None]

        def convert_fields(value: Any) -> Any:
            if isinstance(value, tuple):
                value = value[1]
            if value is not None:
                for field_name, convert in converted:
                    value[field_name] = convert(value[field_name])
            return value

        made = ColumnType(
            "struct<{}>".format(",".join(f"`{field_name}`:{each.ddl}" for field_name, each, _ in fields)),
            pa.struct([pa.field(field_name, each.arrow) for field_name, each, _ in fields]),
            pa.struct([pa.field(field_name, each.made) for field_name, each, _ in fields]),
        )
        return made, convert_fields

    def _decimal(self, schema: Any, where: str) -> ColumnType:
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision <= _MOST_DIGITS:
            raise self._refused(
                where, f"is decimal({precision},{scale}), and a column of Spark's has at most {_MOST_DIGITS} digits"
            )
        arrow = pa.decimal128(precision, scale)
        return ColumnType(f"decimal({precision},{scale})", arrow, arrow)

    def _union(self, branches: list[Any], where: str) -> tuple[ColumnType, Convert | None]:
        others = [each for each in branches if each != "null"]
        if len(others) == 1:
            return self.of(others[0], where)
        kinds = [_kind_of(self._named(each)) for each in others]
        plain = frozenset(kind for kind, logical in kinds if logical is None)
        if len(others) == len(plain) and plain in _MERGED:
            return self.of(_MERGED[plain], where)
        if not others:
            raise self._refused(where, "is always null, which a column of Spark's cannot be")
        for pair in _MERGED:
            if pair <= plain:
                raise self._refused(where, f"is a union of {' and '.join(sorted(pair))} beside other types")
        self.tagged = True
        members = []
        for number, each in enumerate(others):
            made, convert = self.of(each, f"{where}.member{number}")
            members.append(_UnionMember(f"member{number}", self._named(each), made, convert))
        made = ColumnType(
            "struct<{}>".format(",".join(f"`{each.name}`:{each.type.ddl}" for each in members)),
            pa.struct([pa.field(each.name, each.type.arrow) for each in members]),
            pa.struct([pa.field(each.name, each.type.made) for each in members]),
        )
        return made, _UnionValues(members).convert

    def _named(self, schema: Any) -> Any:
        return self.names.get(schema, schema) if isinstance(schema, str) else schema

    def _refused(self, where: str, problem: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self.what}: {where} {problem}; a reader's schema without that field leaves it out of all values"
        )


@frozen
class _UnionMember:
    """One type of a union: the field of the struct, the type in Avro and as a column."""

    name: str
    schema: Any
    type: ColumnType
    convert: Convert | None

    def holds(self, value: Any) -> bool:
        """Return whether a value without a tag is of this type."""
        kind, logical = _kind_of(self.schema)
        if logical is not None:
            kind = "decimal" if logical == "decimal" else "date" if logical == "date" else "timestamp"
        if not isinstance(value, _PYTHON["record" if kind == "error" else kind]):
            return False
        if isinstance(value, bool | datetime):
            return kind in ("boolean", "timestamp")
        if kind in ("record", "error"):
            return set(value) == {each["name"] for each in self.schema["fields"]}
        if kind == "fixed":
            return len(value) == int(self.schema["size"])
        return bool(kind != "enum" or value in self.schema["symbols"])


@frozen
class _UnionValues:
    """Puts a value of a union into the struct's field for its type."""

    members: list[_UnionMember]

    def convert(self, value: Any) -> Any:
        """Return the struct of a value."""
        if value is None:
            return None
        found = None
        if isinstance(value, tuple):  # the name of the type, and the value
            name, value = value
            found = next((each for each in self.members if _name_of(each.schema) == name), None)
        if found is None:
            found = next((each for each in self.members if each.holds(value)), None)
        if found is None:
            raise ValueError(f"a {type(value).__name__} is of no type of the union")
        return {found.name: value if found.convert is None else found.convert(value)}


def _untagged(value: Any) -> Any:
    return value[1] if isinstance(value, tuple) else value


def _name_of(schema: Any) -> str | None:
    return schema.get("name") if isinstance(schema, dict) else None


def _kind_of(schema: Any) -> tuple[Any, Any]:
    """Return the type and the logical type of a schema that is no union; the latter is None if it has no meaning."""
    if not isinstance(schema, dict):
        return schema, None
    kind, logical = schema.get("type"), schema.get("logicalType")
    known = (kind, logical) in _LOGICAL or (logical == "decimal" and kind in ("bytes", "fixed"))
    return kind, logical if known else None


@frozen
class ValueType:
    """The column of a reader's schema. ``convert``: for schemas whose unions need the names of types, else None."""

    column: ColumnType
    convert: Convert | None


def value_type(schema: NamedSchema, what: str) -> ValueType:
    """Return the column for values of a schema, which ``what`` names. Raises ConfigurationError."""
    walk = _Walk(schema.names, what)
    column, convert = walk.of(schema.schema, "value")
    return ValueType(column, convert if walk.tagged else None)


def check_written(schema: NamedSchema) -> None:
    """Raise AvroError for a schema by which few bytes can become endless values, or crash a worker."""
    recursive = recursive_type(schema.schema, schema.names)
    if recursive:
        raise AvroError(f"it is recursive ({recursive} contains itself), and is not decoded: few bytes may nest deeply")
