"""Schemas by which few bytes become endless values, or end the process that reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from attrs import define, field

from logd.avro.framing import AvroError

#: Fields within fields of one value; more is no schema that a person has written.
MOST_FIELDS = 10_000
#: Values without bytes, such as null, for each byte of an item of an array or a map, or of a type that contains itself.
#: A record of 9,000 fields of type null and one of type int takes one byte: some thousand of them fill the memory.
MOST_EMPTY_FOR_A_BYTE = 8
#: The bytes of a value of a primitive type, where they are more than one.
_LEAST_BYTES = {"null": 0, "float": 4, "double": 8}


def recursive_type(schema: Any, names: Mapping[str, Any]) -> str:
    """Return the name of a type that contains itself, "" if there is none, of a schema as fastavro has parsed it.

    fastavro's compiled reader recurses without a limit: some thousand bytes of such a schema end the process.

    Raises AvroError for a schema by which few bytes can become endless values: an array whose items take no bytes may
    have 2^60 of them. Likewise for types that nest too deeply to be looked at.
    """
    walk = _ValueWalk(names)
    try:
        walk.cost(schema)
    except RecursionError:
        raise AvroError("its types nest too deeply, and it is not decoded") from None
    return walk.recursive


class _ValueCost(NamedTuple):
    """The cost of one value of a type, without the items of its arrays and maps."""

    #: Values within the value, itself included.
    values: int
    #: Those that take no bytes, at most.
    empty: int
    #: Bytes, at least.
    bytes: int


@define(eq=False)
class _ValueWalk:
    names: Mapping[str, Any]
    recursive: str = ""
    _open: list[str] = field(factory=list)
    _known: dict[str, _ValueCost] = field(factory=dict)
    #: The types that were found to contain themselves.
    _repeated: set[str] = field(factory=set)

    def cost(self, schema: Any) -> _ValueCost:
        """Return the cost of a value."""
        if isinstance(schema, list):
            each = [self.cost(one) for one in schema]
            least = min((one.bytes for one in each), default=0)
            return _ValueCost(
                1 + sum(one.values for one in each), max((one.empty for one in each), default=0), 1 + least
            )
        if isinstance(schema, str):
            if schema not in self.names:
                return _primitive(schema)
            schema = self.names[schema]
        name = schema.get("name")
        if name is None:
            return self._size(schema)
        if name in self._open:
            self.recursive = name
            self._repeated.add(name)
            return _ValueCost(1, 0, 1)
        if name not in self._known:
            self._open.append(name)
            found = self._known[name] = self._size(schema)
            self._open.pop()
            if name in self._repeated:
                _require_bytes(found, 0, f"a type, {name}, that contains itself")
        return self._known[name]

    def _size(self, schema: Any) -> _ValueCost:
        kind = schema["type"]
        if kind in ("record", "error"):
            each = [self.cost(one["type"]) for one in schema["fields"]]
            found = _ValueCost(
                1 + sum(one.values for one in each), sum(one.empty for one in each), sum(one.bytes for one in each)
            )
            if found.values > MOST_FIELDS:
                raise AvroError(f"it has more than {MOST_FIELDS} fields within fields")
            return found if found.bytes else found._replace(empty=found.empty + 1)
        if kind == "array":
            items = self.cost(schema["items"])
            if not items.bytes:
                raise AvroError("it has an array of items that take no bytes, and is not decoded")
            _require_bytes(items, 0, "an array of items")
            return _ValueCost(1 + items.values, 0, 1)
        if kind == "map":
            values = self.cost(schema["values"])
            _require_bytes(values, 1, "a map of values")  # a key takes one byte at least
            return _ValueCost(1 + values.values, 0, 1)
        if kind == "fixed":
            size = schema["size"] if type(schema["size"]) is int else 0  # of a registry that lets anything in
            return _ValueCost(1, int(size <= 0), max(0, size))
        return _primitive(kind) if isinstance(kind, str) and kind not in self.names else self.cost(kind)


def _primitive(kind: str) -> _ValueCost:
    return _ValueCost(1, int(kind == "null"), _LEAST_BYTES.get(kind, 1))


def _require_bytes(cost: _ValueCost, more: int, what: str) -> None:
    """Raise AvroError for values of which one has much that takes no bytes. ``more``: further bytes of each."""
    if cost.empty > MOST_EMPTY_FOR_A_BYTE * (1 + more + cost.bytes):
        raise AvroError(
            f"it has {what}, each with up to {cost.empty} values that take no bytes, and is not decoded: a short "
            "message could become endless values"
        )
