"""The types of an Avro schema as records. They are compared by identity: a named type may contain itself.

``properties`` holds the attributes that the specification does not reserve, logical types among them, in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import define, field

from logd.errors import LogdError

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class InvalidAvroSchema(LogdError):
    """A text is no Avro schema, or one that is not accepted; the text says where and why."""


class _NoDefault:
    """The type of NO_DEFAULT, as None is a default."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT = _NoDefault()


@define(eq=False)
class AvroPrimitive:
    """One of PRIMITIVES."""

    kind: str
    properties: Mapping[str, Any] = field(factory=dict)


@define(eq=False)
class AvroArray:
    """A list of items of one type."""

    kind: ClassVar[str] = "array"
    items: AvroType
    properties: Mapping[str, Any] = field(factory=dict)


@define(eq=False)
class AvroMap:
    """Values of one type by string keys."""

    kind: ClassVar[str] = "map"
    values: AvroType
    properties: Mapping[str, Any] = field(factory=dict)


@define(eq=False)
class AvroUnion:
    """One of several types."""

    kind: ClassVar[str] = "union"
    branches: tuple[AvroType, ...]


@define(eq=False)
class AvroNamed:
    """Base of the types that have a name: ``namespace`` is "" for none, ``aliases`` are full names."""

    kind: ClassVar[str] = ""
    name: str
    namespace: str
    aliases: tuple[str, ...]
    doc: str | None
    properties: Mapping[str, Any]

    @property
    def full_name(self) -> str:
        """The name with its namespace."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


@define(eq=False)
class AvroFixed(AvroNamed):
    """A fixed number of bytes."""

    kind: ClassVar[str] = "fixed"
    size: int = 0


@define(eq=False)
class AvroEnum(AvroNamed):
    """One of several symbols; ``default`` stands for a symbol that a reader does not know."""

    kind: ClassVar[str] = "enum"
    symbols: tuple[str, ...] = ()
    default: str | None = None


@define(eq=False)
class AvroField:
    """A field of a record. ``default`` is a value of JSON, or NO_DEFAULT."""

    name: str
    type: AvroType
    doc: str | None
    default: Any
    order: str
    aliases: tuple[str, ...]
    properties: Mapping[str, Any]


@define(eq=False)
class AvroRecord(AvroNamed):
    """Fields in order; the parser sets them after it has made the record, which they may contain."""

    kind: ClassVar[str] = "record"
    fields: tuple[AvroField, ...] = ()
    #: The record is declared as an error of a protocol; it is encoded as any record.
    is_error: bool = False


AvroDefinition = AvroFixed | AvroEnum | AvroRecord
AvroType = AvroPrimitive | AvroArray | AvroMap | AvroUnion | AvroDefinition


@define(eq=False)
class AvroSchema:
    """A parsed schema: its root, and the types that its text defines, by full name (without those of references)."""

    root: AvroType
    defined: Mapping[str, AvroDefinition]
    #: Every type that the text may name: ``defined``, and those of the references.
    known: Mapping[str, AvroDefinition]
