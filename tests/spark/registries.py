"""A schema registry in memory, behind the function by which a blocking client asks."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any
from urllib.parse import unquote

import fastavro
from attrs import define, field

from logd.avro.framing import head
from logd.spark.blocking.registry import BlockingRegistry, RegistryAddress

URL = "http://registry:8081"


def record(*fields: Any, name: str = "R") -> str:
    """Return the text of a record. A field is its JSON, or "x" and "x=1" of type int, without and with a default."""
    rows = []
    for each in fields:
        if isinstance(each, str):
            field_name, _, default = each.partition("=")
            each = {"name": field_name, "type": "int", **({"default": int(default)} if default else {})}
        rows.append(each)
    return json.dumps({"type": "record", "name": name, "fields": rows})


def framed(schema_id: int, schema: str, value: Any) -> bytes:
    """Return a payload in Confluent's framing."""
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema), named_schemas={}), value)
    return head(schema_id) + stream.getvalue()


@define(eq=False)
class FakeRegistry:
    """Subjects with their versions, each an id; ``away`` and ``status`` make it fail."""

    schemas: dict[int, dict[str, Any]] = field(factory=dict)
    subjects: dict[str, list[int]] = field(factory=dict)
    requests: list[str] = field(factory=list)
    away: bool = False
    status: int = 200
    body: bytes | None = None
    now: float = 0.0

    def add(self, subject: str, text: str, **more: Any) -> int:
        """Register a schema and return its id, which begins at 11 so that it is no version."""
        schema_id = 11 + len(self.schemas)
        self.schemas[schema_id] = {"schema": text, **more}
        self.subjects.setdefault(subject, []).append(schema_id)
        return schema_id

    def client(self, timeout: float = 30.0) -> BlockingRegistry:
        """Return a client whose time passes in its pauses only."""
        return BlockingRegistry(RegistryAddress(URL, timeout), self.exchange, lambda: self.now, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def exchange(self, settings: RegistryAddress, path: str, seconds: float) -> tuple[int, bytes]:
        """Answer a request."""
        self.requests.append(path)
        if self.away:
            raise ConnectionRefusedError("refused")
        if self.body is not None or self.status != 200:
            return self.status, self.body or b"{}"
        code, answer = self._answer([unquote(part) for part in path.partition("?")[0].strip("/").split("/")])
        return (404 if code else 200), json.dumps(
            {"error_code": code, "message": "not found"} if code else answer
        ).encode()

    def _answer(self, parts: list[str]) -> tuple[int, Any]:
        if parts[:2] == ["schemas", "ids"]:
            found = self.schemas.get(int(parts[2]))
            return (0, found) if found is not None else (40403, None)
        ids = self.subjects.get(parts[1])
        if ids is None:
            return 40401, None
        if len(parts) == 3:
            return 0, list(range(1, len(ids) + 1))
        number = len(ids) if parts[3] == "latest" else int(parts[3])
        if not 0 < number <= len(ids):
            return 40402, None
        return 0, {"subject": parts[1], "version": number, "id": ids[number - 1], **self.schemas[ids[number - 1]]}
