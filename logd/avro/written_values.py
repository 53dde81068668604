"""Schemas by which few bytes become endless values, or end the process that reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from logd.avro.framing import AvroError

#: Fields within fields of one value; more is no schema that a person has written.
MOST_FIELDS = 10_000


def recursive_type(schema: Any, names: Mapping[str, Any]) -> str:
    """Return the name of a type that contains itself, "" if there is none, of a schema as fastavro has parsed it.

    fastavro's compiled reader recurses without a limit: some thousand bytes of such a schema end the process.

    Raises AvroError for a schema by which few bytes can become endless values: an array whose items take no bytes may
    have 2^60 of them.
    """
    walk = _ValueWalk(names)
    walk.cost(schema)
    return walk.recursive


@define(eq=False)
class _ValueWalk:
    names: Mapping[str, Any]
    recursive: str = ""
    _open: list[str] = field(factory=list)
    _known: dict[str, tuple[int, bool]] = field(factory=dict)

    def cost(self, schema: Any) -> tuple[int, bool]:
        """Return the number of values within a value, and whether it may take no bytes."""
        if isinstance(schema, list):
            return 1 + sum(self.cost(each)[0] for each in schema), False
        if isinstance(schema, str):
            if schema not in self.names:
                return 1, schema == "null"
            schema = self.names[schema]
        name = schema.get("name")
        if name is None:
            return self._size(schema)
        if name in self._open:
            self.recursive = name
            return 1, False
        if name not in self._known:
            self._open.append(name)
            self._known[name] = self._size(schema)
            self._open.pop()
        return self._known[name]

    def _size(self, schema: Any) -> tuple[int, bool]:
        kind = schema["type"]
        if kind in ("record", "error"):
            each = [self.cost(one["type"]) for one in schema["fields"]]
            count, empty = 1 + sum(one for one, _ in each), all(nothing for _, nothing in each)
            if count > MOST_FIELDS:
                raise AvroError(f"it has more than {MOST_FIELDS} fields within fields")
            return count, empty
        if kind == "array":
            count, empty = self.cost(schema["items"])
            if empty:
                raise AvroError("it has an array of items that take no bytes, and is not decoded")
            return 1 + count, False
        if kind == "map":
            return 1 + self.cost(schema["values"])[0], False
        if kind == "fixed":
            return 1, schema["size"] == 0
        return (1, kind == "null") if isinstance(kind, str) and kind not in self.names else self.cost(kind)
