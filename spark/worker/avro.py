"""Values that are Avro records: a schema as JSON to Spark's and Arrow's types, and values to typed columns."""

from __future__ import annotations

import io
import json
from typing import Any, NamedTuple

import pyarrow as pa
from attrs import define, field

from logd.errors import ConfigurationError
from logd.protocol.optional_packages import needing

_PRIMITIVES = {
    "boolean": ("boolean", pa.bool_()),
    "int": ("int", pa.int32()),
    "long": ("bigint", pa.int64()),
    "float": ("float", pa.float32()),
    "double": ("double", pa.float64()),
    "bytes": ("binary", pa.binary()),
    "string": ("string", pa.string()),
}
_LOGICAL: dict[tuple[str, Any], tuple[str, Any]] = {
    ("int", "date"): ("date", pa.date32()),
    ("long", "timestamp-millis"): ("timestamp", pa.timestamp("us", tz="UTC")),
    ("long", "timestamp-micros"): ("timestamp", pa.timestamp("us", tz="UTC")),
}


class DecodedValues(NamedTuple):
    """An array of values, with null for those in ``wrong`` (index -> reason), which do not match the schema."""

    array: pa.Array
    wrong: dict[int, str]


@define(eq=False)
class AvroValues:
    """One Avro schema (JSON). ``ddl`` is its type in Spark's words, ``type`` in Arrow's.

    Raises ConfigurationError for text that is no schema, or a schema that no column can hold: a union of more than one
    type and null, a recursive record, a map or fixed decimal of an unsupported kind; MissingPackage without fastavro.
    """

    text: str
    ddl: str = field(init=False)
    type: Any = field(init=False)
    _schema: Any = field(init=False)
    _read: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        with needing("fastavro", "the option avroSchema"):
            import fastavro
        self._read = fastavro.schemaless_reader
        try:
            self._schema = fastavro.parse_schema(json.loads(self.text), named_schemas={})
        except Exception as error:  # fastavro's errors share no base
            raise ConfigurationError(f"option avroSchema is not an Avro schema: {error}") from None
        self.ddl, self.type = _types(self._schema, "value")

    def decode(self, values: list[bytes | None]) -> DecodedValues:
        """Return the values as an array, and the numbers of those that do not match the schema."""
        read, schema = self._read, self._schema
        decoded: list[Any] = []
        wrong: dict[int, str] = {}
        for number, value in enumerate(values):
            if value is None:
                decoded.append(None)
                continue
            stream = io.BytesIO(value)
            found = None
            try:
                found = read(stream, schema)
            except Exception as error:  # fastavro passes on any error of its reading
                wrong[number] = f"a value of length {len(value)} does not match the Avro schema: {error!r}"
            else:
                if stream.tell() != len(value):
                    wrong[number] = (
                        f"a value of length {len(value)} has bytes after the record's end at byte {stream.tell()}"
                    )
                    found = None
            decoded.append(found)
        try:
            return DecodedValues(pa.array(decoded, self.type), wrong)
        except (pa.ArrowException, OverflowError):  # the decoded value is outside the range of its own type
            self._leave_out_misfits(decoded, wrong)
            return DecodedValues(pa.array(decoded, self.type), wrong)

    def _leave_out_misfits(self, decoded: list[Any], wrong: dict[int, str]) -> None:
        for number, value in enumerate(decoded):
            try:
                pa.array([value], self.type)
            except (pa.ArrowException, OverflowError) as error:
                wrong[number] = f"a value does not fit its Avro type: {error}"
                decoded[number] = None


def _types(schema: Any, where: str) -> tuple[str, Any]:
    """Return a schema's type in Spark's words and in Arrow's."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise ConfigurationError(f"avroSchema: {where} is a union of {len(others)} types; null and one are allowed")
        return _types(others[0], where)
    kind = schema if isinstance(schema, str) else schema["type"]
    logical = None if isinstance(schema, str) else schema.get("logicalType")
    if not isinstance(kind, str):
        return _types(kind, where)
    if (kind, logical) in _LOGICAL:
        return _LOGICAL[kind, logical]
    if kind in _PRIMITIVES and logical is None:
        return _PRIMITIVES[kind]
    if kind == "enum":
        return "string", pa.string()
    if kind == "fixed" and logical is None:
        return "binary", pa.binary()
    if kind == "array":
        ddl, item = _types(schema["items"], f"{where}[]")
        return f"array<{ddl}>", pa.list_(pa.field("element", item))
    if kind == "map":
        ddl, item = _types(schema["values"], f"{where}{{}}")
        return f"map<string,{ddl}>", pa.map_(pa.string(), pa.field("value", item))
    if kind in ("record", "error"):
        fields = [(each["name"], *_types(each["type"], f"{where}.{each['name']}")) for each in schema["fields"]]
        ddl = ",".join(f"`{name}`:{kind}" for name, kind, _ in fields)
        return f"struct<{ddl}>", pa.struct([pa.field(name, arrow) for name, _, arrow in fields])
    raise ConfigurationError(f"avroSchema: {where} is {logical or kind}, which no column can hold here")
