"""The fields that requests and responses are made of: strings, counts, sets; read with every length checked first.

str := int16 byte length | UTF-8        set := int32 byte length | message set        list := int32 count | item*
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeAlias

from logd.errors import InvalidRequest, ProtocolViolation
from logd.plurals import counted

if TYPE_CHECKING:
    from logd.interfaces import IFileRange

#: A part of a response: bytes, or one of the ranges of files that a broker sends without reading them.
Piece: TypeAlias = "bytes | IFileRange"
#: A message set in a response: a broker sends it from its file, a client may be handed a view of what it received.
MessageSetField: TypeAlias = "bytes | memoryview | IFileRange"

INT8 = Struct(">b")
INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")

_MAX_STRING_BYTES = 32767
_IN_MEMORY = (bytes, memoryview)


def encode_text(value: str) -> bytes:
    """Return a ``str`` field; raise InvalidRequest if it has no UTF-8 or is too long for its int16."""
    try:
        encoded = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"a string has no UTF-8: {error}") from None
    if len(encoded) > _MAX_STRING_BYTES:
        raise InvalidRequest(f"a string of {len(encoded)} bytes, {_MAX_STRING_BYTES} are allowed: {value[:40]!r}...")
    return INT16.pack(len(encoded)) + encoded


def shorten_text(value: str) -> str:
    """Return a text cut to fit a ``str`` field."""
    return value if len(value) <= 1000 else value[:1000] + "..."


def size_of(piece: MessageSetField) -> int:
    """Return the size of a piece of a response in bytes."""
    return len(piece) if isinstance(piece, _IN_MEMORY) else piece.count


def memory_of(pieces: Iterable[Piece]) -> int:
    """Return how many bytes of pieces are in memory: ranges of files take none."""
    return sum([len(piece) for piece in pieces if isinstance(piece, bytes)])


def encode_int32s(values: Iterable[int]) -> bytes:
    """Return a list of int32."""
    numbers = list(values)
    return Struct(f">i{len(numbers)}i").pack(len(numbers), *numbers)


def encode_int64s(values: Iterable[int]) -> bytes:
    """Return a list of int64."""
    numbers = list(values)
    return Struct(f">i{len(numbers)}q").pack(len(numbers), *numbers)


def encode_texts(values: Mapping[str, str]) -> list[bytes]:
    """Return a list of pairs of ``str`` fields, in pieces."""
    pieces = [INT32.pack(len(values))]
    for name, value in values.items():
        pieces += (encode_text(name), encode_text(value))
    return pieces


class Reader:
    """Reads fields in order from ``data[at:stop]``; raises ProtocolViolation if lengths do not add up.

    ``data`` may be a memoryview: every field is copied from it once, except by ``view``.
    ``max_items`` bounds each list.
    """

    __slots__ = ("at", "data", "max_items", "stop")

    def __init__(self, data: bytes | memoryview, at: int, stop: int, max_items: int = sys.maxsize) -> None:
        self.data = data
        self.max_items = max_items
        self.at = at
        self.stop = stop

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """Return the fixed fields of ``layout``."""
        at = self.at
        after = at + layout.size
        if after > self.stop:
            raise ProtocolViolation(f"{layout.size} bytes of fields wanted, {self.stop - at} are left")
        self.at = after
        return layout.unpack_from(self.data, at)

    def int32(self) -> int:
        """Return one int32."""
        return int(self.unpack(INT32)[0])

    def take(self, length: int) -> bytes:
        """Return the next ``length`` bytes."""
        return bytes(self.view(length))

    def view(self, length: int) -> bytes | memoryview:
        """Return the next ``length`` bytes, not copied where the data is a memoryview: they keep all of it alive."""
        at = self.at
        after = at + length
        if length < 0 or after > self.stop:
            raise ProtocolViolation(f"a field of {length} bytes, {self.stop - at} are left")
        self.at = after
        return self.data[at:after]

    def text(self) -> str:
        """Return a ``str`` field."""
        try:
            return self.take(self.unpack(INT16)[0]).decode()
        except UnicodeDecodeError as error:
            raise ProtocolViolation(f"a string is not UTF-8: {error}") from None

    def message_set(self) -> bytes:
        """Return a message set behind its int32 length."""
        return self.take(self.unpack(INT32)[0])

    def rest(self) -> bytes:
        """Return everything that is left."""
        return self.take(self.stop - self.at)

    def count(self, least_bytes: int, layout: Struct = INT32) -> int:
        """Return the number of items that follow, of at least ``least_bytes`` each; never more than can fit."""
        number = int(self.unpack(layout)[0])
        self.check_count(number, least_bytes)
        return number

    def check_count(self, number: int, least_bytes: int) -> None:
        """Raise ProtocolViolation if ``number`` items of ``least_bytes`` or more cannot follow, or are too many."""
        if number < 0 or number * least_bytes > self.stop - self.at:
            raise ProtocolViolation(f"{number} items in {self.stop - self.at} bytes")
        if number > self.max_items:
            raise ProtocolViolation(f"{number} items in one list, {self.max_items} are allowed")

    def int32s(self) -> tuple[int, ...]:
        """Return a list of int32."""
        return self.unpack(Struct(f">{self.count(4)}i"))

    def int64s(self) -> tuple[int, ...]:
        """Return a list of int64."""
        return self.unpack(Struct(f">{self.count(8)}q"))

    def finish(self) -> None:
        """Raise ProtocolViolation if anything is left."""
        if self.at != self.stop:
            raise ProtocolViolation(f"{counted(self.stop - self.at, 'byte')} left over")


def read_texts(reader: Reader) -> dict[str, str]:
    """Read a list of pairs of ``str`` fields; of a name that comes twice the last value counts."""
    found: dict[str, str] = {}
    for _ in range(reader.count(4)):
        name = reader.text()
        found[name] = reader.text()
    return found
