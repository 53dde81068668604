"""Compares a field's default, a value of JSON, with the field's type, by the table of the Avro specification."""

from __future__ import annotations

from logd.schema_registry.avro.types import (
    NO_DEFAULT,
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroRecord,
    AvroType,
    AvroUnion,
)

_INT = 1 << 31
_LONG = 1 << 63


def fits(type_: AvroType, value: object) -> bool:
    """Return whether ``value`` is a default for a field of this type. Recursion ends with the depth of ``value``."""
    match type_:
        case AvroUnion():
            return any(fits(branch, value) for branch in type_.branches)
        case AvroArray():
            return isinstance(value, list) and all(fits(type_.items, each) for each in value)
        case AvroMap():
            return isinstance(value, dict) and all(fits(type_.values, each) for each in value.values())
        case AvroRecord():
            # A field that the value leaves out has its own default, which is examined where it stands.
            return isinstance(value, dict) and all(
                fits(each.type, value[each.name]) if each.name in value else each.default is not NO_DEFAULT
                for each in type_.fields
            )
        case AvroEnum():
            return value in type_.symbols
        case AvroFixed():
            return isinstance(value, str) and len(value) == type_.size and _is_bytes(value)
    return _fits_primitive(type_.kind, value)


def _fits_primitive(kind: str, value: object) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "bytes":
            return isinstance(value, str) and _is_bytes(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if kind in ("float", "double"):
        return True
    limit = _INT if kind == "int" else _LONG
    return isinstance(value, int) and -limit <= value < limit


def _is_bytes(value: str) -> bool:
    """Return whether each character stands for one byte, as JSON has no bytes."""
    return all(ord(each) < 256 for each in value)
