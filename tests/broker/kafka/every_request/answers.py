"""A reader of answers by Kafka's own schemas: it knows nothing of kafka-python's classes, nor of logd's."""

from __future__ import annotations

from struct import unpack_from
from typing import Any

from tests.broker.kafka.every_request.random_requests import is_in, schema

_BYTES = {"bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2, "float64": 8, "uuid": 16}
#: The bytes of an answer's size and correlation id.
HEAD_BYTES = 8


class AnswerReader:
    """Passes over the fields of one answer. Raises struct.error or IndexError where some are missing."""

    def __init__(self, name: str, version: int, data: bytes) -> None:
        self._schema = schema(name, "Response")
        self._structs = {each["name"]: each["fields"] for each in self._schema.get("commonStructs", ())}
        self._version, self._data = version, data
        self._flexible = is_in(version, self._schema["flexibleVersions"])
        self.at = HEAD_BYTES
        if self._flexible and name != "ApiVersions":
            self._tags()

    def read(self) -> int:
        """Return the index behind the last field."""
        self._struct(self._schema["fields"])
        return self.at

    def _struct(self, fields: list[dict[str, Any]]) -> None:
        for each in fields:
            if is_in(self._version, each["versions"]) and "tag" not in each:
                self._field(str(each["type"]), each)
        if self._flexible:
            self._tags()

    def _field(self, kind: str, field: dict[str, Any]) -> None:
        if kind.startswith("[]"):
            for _ in range(self._length(">i", field)):
                self._field(kind[2:], {**field, "nullableVersions": "none"})
        elif kind in _BYTES:
            self._skip(_BYTES[kind])
        elif kind in ("string", "bytes", "records"):
            length = self._length(">h" if kind == "string" else ">i", field)
            self._skip(length)
        else:
            self._struct(field.get("fields") or self._structs[kind])

    def _length(self, layout: str, field: dict[str, Any]) -> int:
        if self._flexible:
            length = self._varint() - 1
        else:
            (length,) = unpack_from(layout, self._data, self.at)
            self.at += 2 if layout == ">h" else 4
        if length < 0 and not (length == -1 and is_in(self._version, field.get("nullableVersions", "none"))):
            raise IndexError(f"{field['name']} has length {length}")
        return max(int(length), 0)

    def _tags(self) -> None:
        for _ in range(self._varint()):
            self._varint()
            length = self._varint()
            self._skip(length)

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise IndexError(f"{self.at - len(self._data)} bytes are missing")

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
