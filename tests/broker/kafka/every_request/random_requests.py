"""Random requests of every API at any version, written from Kafka's own schemas, which kafka-python ships as JSON.

The writer is a second opinion on the reader: it knows nothing of kafka-python's classes but where the schemas are.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from random import Random
from struct import pack
from typing import Any

import kafka.protocol

_SCHEMAS = Path(kafka.protocol.__file__).parent / "schemas" / "resources"
_INTEGERS = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "uint32": "I"}
#: Names that requests are likely to find something by.
NAMES = ("t", "u", "v", "no-such", "group", "consumer", "range", "", "a/b", "..", "ü", "x" * 250, "\0")
NUMBERS = (0, 1, -1, 2, 5, 100, -2, 500, 1 << 20, 1 << 31, 1 << 62)


@cache
def schema(name: str, kind: str = "Request") -> dict[str, Any]:
    """Return the schema of a request, such as ``Fetch``, or of its response."""
    text = (_SCHEMAS / f"{name}{kind}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return found


def is_in(version: int, versions: str) -> bool:
    """Return whether a version is one of those that a schema writes as none, 3, 3-5 or 3+."""
    if versions == "none":
        return False
    first, _, last = versions.rstrip("+").partition("-")
    return int(first) <= version <= (int(last) if last else int(first) if versions == first else 1 << 15)


class RequestWriter:
    """Writes requests of one version with random values; ``records`` are the record sets to choose from."""

    def __init__(self, random: Random, name: str, version: int, records: tuple[bytes, ...], flexible: bool) -> None:
        self._random = random
        self._schema = schema(name)
        self._structs = {each["name"]: each["fields"] for each in self._schema.get("commonStructs", ())}
        self._version = version
        self._records = records
        self._flexible = flexible

    def write(self) -> bytes:
        """Return one request with its head and size."""
        tags = b"\0" if self._flexible else b""
        head = pack(">hhih", self._schema["apiKey"], self._version, self._random.randrange(1 << 31), 4) + b"fuzz" + tags
        data = head + self._struct(self._schema["fields"])
        return pack(">i", len(data)) + data

    def _struct(self, fields: list[dict[str, Any]]) -> bytes:
        pieces = [self._field(each) for each in fields if self._is_in(each["versions"]) and "tag" not in each]
        return b"".join(pieces) + (b"\0" if self._flexible else b"")

    def _is_in(self, versions: str) -> bool:
        return is_in(self._version, versions)

    def _field(self, field: dict[str, Any]) -> bytes:
        kind = str(field["type"])
        may_be_null = "nullableVersions" in field and self._is_in(field["nullableVersions"])
        if kind.startswith("[]"):
            if may_be_null and self._random.random() < 0.2:
                return self._length(-1, ">i")
            count = self._random.choice((0, 1, 1, 1, 2, 3))
            item = {**field, "type": kind[2:]}
            item.pop("nullableVersions", None)
            return self._length(count, ">i") + b"".join([self._field(item) for _ in range(count)])
        if kind in _INTEGERS:
            bits = 8 * len(pack(_INTEGERS[kind], 0))
            low = 0 if kind.startswith("u") else 1 << (bits - 1)
            value = self._random.choice(NUMBERS)
            return ((value + low) % (1 << bits) - low + (low << 1) % (1 << bits)).to_bytes(
                bits // 8, "big", signed=not kind.startswith("u")
            )
        if kind == "bool":
            return self._random.choice((b"\0", b"\1"))
        if kind == "float64":
            return pack(">d", self._random.random())
        if kind == "uuid":
            return self._random.randbytes(16)
        if kind == "string":
            null = may_be_null and self._random.random() < 0.2
            return self._sized(None if null else self._random.choice(NAMES).encode(), ">h")
        if kind in ("bytes", "records"):
            null = may_be_null and self._random.random() < 0.1
            return self._sized(None if null else self._random.choice(self._records), ">i")
        return self._struct(field.get("fields") or self._structs[kind])

    def _sized(self, value: bytes | None, layout: str) -> bytes:
        return self._length(-1, layout) if value is None else self._length(len(value), layout) + value

    def _length(self, length: int, layout: str) -> bytes:
        if not self._flexible:
            return pack(layout, length)
        length += 1
        out = bytearray()
        while length >= 0x80:
            out.append(length & 0x7F | 0x80)
            length >>= 7
        out.append(length)
        return bytes(out)


def mutated(random: Random, data: bytes) -> bytes:
    """Return a request with some bytes changed, left out or repeated, behind a size that is mostly right."""
    body = bytearray(data[4:])
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        at = random.randrange(len(body) + 1) if random.random() < 0.9 else min(random.randrange(30), len(body))
        match random.randrange(5):
            case 0:
                body[at : at + 1] = random.randbytes(1)
            case 1:
                body[at : at + 4] = pack(">i", random.choice((-1, 0, 1, 1 << 30, -(1 << 31), (1 << 31) - 1)))
            case 2:
                del body[at : at + random.choice((1, 2, 4, 100))]
            case 3:
                body[at:at] = random.randbytes(random.choice((1, 2, 8)))
            case _:
                body[at : at + 2] = pack(">h", random.choice((-1, 0, 32767, -32768)))
    size = len(body) if random.random() < 0.95 else random.choice((0, -1, 5, 1 << 30))
    return pack(">i", size) + bytes(body)
