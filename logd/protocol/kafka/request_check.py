"""The checks of requests that kafka-python reads: how many items they have, and nulls where the protocol has none.

The items of all lists are counted before kafka-python makes an object of each: a false length would otherwise have it
read zeros as hundreds of thousands of items, until it finds that some are missing. It reads a length of -1 as None
whatever the schema says, and a handler would stumble over it. The layout of requests comes from kafka-python.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import Any, NamedTuple

from logd.errors import ProtocolViolation

#: Bytes of the fields whose size is fixed.
_FIXED = {"bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float64": 8, "uuid": 16}
_MOST_SHIFT = 63
_INT16, _INT32 = Struct(">h"), Struct(">i")


class _Place(NamedTuple):
    """One field, or fields of fixed size that follow each other."""

    name: str
    #: The bytes of fixed size; 0 for a field that begins with its length.
    size: int
    #: The length of a string, bytes or a list; None: a varint, of one more than the length.
    length: Struct | None = None
    #: The fields of each item of a list; None for a string or bytes.
    item: tuple[_Place, ...] | None = None
    #: True for the tagged fields that end a struct of a flexible version.
    is_tags: bool = False


def check_item_count(data: bytes | memoryview, kind: Any, version: int, most: int) -> int:
    """Raise ProtocolViolation if the lists of a request of this class have more than ``most`` items together.

    Return the number of bytes that the request has. Raises IndexError or struct.error for some of the bytes that are
    no request: kafka-python says what is wrong with them.
    """
    walk = _ItemWalk(data, most)
    walk.over(_places(kind, version))
    return walk.at


class _ItemWalk:
    """One way through the bytes of a request."""

    def __init__(self, data: bytes | memoryview, room: int) -> None:
        self._data = data
        self._room = room
        self.at = 0

    def over(self, places: tuple[_Place, ...]) -> None:
        """Pass over the fields of one struct."""
        for place in places:
            if place.size:
                self.at += place.size
            elif place.is_tags:
                count = self._varint()
                self._take(count, place)
                for _ in range(count):
                    self._varint()
                    self._skip(self._varint())
            elif place.item is None:
                self._skip(max(self._length(place), 0))
            else:
                self._list(place, place.item)

    def _take(self, count: int, place: _Place) -> None:
        self._room -= count
        if self._room < 0:
            raise ProtocolViolation(f"too many {place.name}: ask for fewer at a time")

    def _skip(self, count: int) -> None:
        self.at += count

    def _list(self, place: _Place, item: tuple[_Place, ...]) -> None:
        count = max(self._length(place), 0)
        self._take(count, place)
        if len(item) == 1 and item[0].size:
            self.at += item[0].size * count
            return
        for _ in range(count):
            self.over(item)

    def _length(self, place: _Place) -> int:
        if place.length is None:
            return self._varint() - 1
        (length,) = place.length.unpack_from(self._data, self.at)
        self.at += place.length.size
        return int(length)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > _MOST_SHIFT:
                raise ProtocolViolation("a varint of more than 10 bytes")


@cache
def _places(kind: Any, version: int) -> tuple[_Place, ...]:
    return _described(kind._struct.fields.values(), version, bool(kind.flexible_version_q(version)))


def _described(fields: Any, version: int, flexible: bool) -> tuple[_Place, ...]:
    found: list[_Place] = []
    for field in fields:
        if field.tag is not None or not field.for_version_q(version):
            continue
        size = 0 if field.is_array() or field.is_struct_array() else _FIXED.get(field.type_str, 0)
        if size and found and found[-1].size:
            size += found.pop().size
        if size:
            found.append(_Place(field.name, size))
        elif field.is_struct_array():
            item = _described(field.fields.values(), version, flexible)
            found.append(_Place(field.name, 0, None if flexible else _INT32, item))
        elif field.is_array():
            found.append(_Place(field.name, 0, None if flexible else _INT32, (_item(field.array_of, flexible),)))
        else:
            found.append(_item(field, flexible))
    if flexible:
        found.append(_Place("tags", 0, is_tags=True))
    return tuple(found)


def _item(field: Any, flexible: bool) -> _Place:
    """Return a field that is no list of structs: of fixed size, a string, or bytes."""
    kind = field.type_str
    if kind in _FIXED:
        return _Place(field.name, _FIXED[kind])
    return _Place(field.name, 0, None if flexible else _INT32 if kind == "bytes" else _INT16)


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
    return _nullable(kind._struct, version)


def _nullable(struct: Any, version: int) -> tuple[_Field, ...]:
    """Return the fields that may hold a null, or whose parts may; a field that is tagged may be left out."""
    found = []
    for field in struct.fields.values():
        if field.tag is not None or not field.for_version_q(version):
            continue
        is_struct = field.is_struct() or field.is_struct_array()
        inner = _nullable(field, version) if is_struct else ()
        is_list = field.is_array() or field.is_struct_array()
        # kafka-python reads an id of zeros, which stands for none, as None.
        may_be_null = bool(field.nullable_for_version_q(version)) or field.type_str == "uuid"
        found.append(_Field(field.name, may_be_null, is_list, inner))
    return tuple(found)
