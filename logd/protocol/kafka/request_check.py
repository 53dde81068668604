"""The check of requests that kafka-python has read: nulls where the protocol has none, and too many items.

kafka-python reads a length of -1 as None whatever the schema says, and a handler would stumble over it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from logd.errors import ProtocolViolation


class _Field(NamedTuple):
    name: str
    may_be_null: bool
    is_list: bool
    #: The fields of a struct, or of each struct in a list.
    fields: tuple[_Field, ...]


def check_request(request: Any, version: int, most_items: int) -> None:
    """Raise ProtocolViolation that names the field for a null where there is none, or too many items in all lists."""
    kind: Any = type(request)
    _check(request, _fields_of(kind, version), most_items)


def _check(found: Any, fields: tuple[_Field, ...], room: int) -> int:
    """Return the number of items that may still follow."""
    for field in fields:
        value = getattr(found, field.name)
        if value is None:
            if not field.may_be_null:
                raise ProtocolViolation(f"{field.name} is null")
        elif field.is_list:
            room -= len(value)
            if room < 0:
                raise ProtocolViolation(f"too many {field.name}: ask for fewer at a time")
            for item in value:
                if item is None:
                    raise ProtocolViolation(f"one of {field.name} is null")
                if field.fields:
                    room = _check(item, field.fields, room)
        elif field.fields:
            room = _check(value, field.fields, room)
    return room


@cache
def _fields_of(kind: Any, version: int) -> tuple[_Field, ...]:
    return _described(kind._struct, version)


def _described(struct: Any, version: int) -> tuple[_Field, ...]:
    """Return the fields that may hold a null, or whose parts may; a field that is tagged may be left out."""
    found = []
    for field in struct.fields.values():
        if field.tag is not None or not field.for_version_q(version):
            continue
        is_struct = field.is_struct() or field.is_struct_array()
        inner = _described(field, version) if is_struct else ()
        is_list = field.is_array() or field.is_struct_array()
        # kafka-python reads an id of zeros, which stands for none, as None.
        may_be_null = bool(field.nullable_for_version_q(version)) or field.type_str == "uuid"
        found.append(_Field(field.name, may_be_null, is_list, inner))
    return tuple(found)
