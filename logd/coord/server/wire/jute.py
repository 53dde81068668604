"""Jute, ZooKeeper's record encoding: numbers, buffers, strings and vectors; every length is checked before reading.

::

    int := int32      long := int64      bool := one byte      all big-endian
    buffer := int32 length | bytes       length -1: null
    ustring := buffer of UTF-8           vector := int32 count | item*     count -1: null
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

from logd.coord.records import Acl, Stat
from logd.errors import ProtocolViolation
from logd.plurals import counted
from logd.protocol.requests.fields import INT32, INT64, Reader

BOOL = Struct(">?")
#: The length of null.
_NONE = INT32.pack(-1)
_LENGTH = INT32.unpack_from
_STAT = Struct(">qqqqiiiqiiq")
#: The fewest bytes of a string, and of a row of an access list, in a vector.
_LEAST_STRING = 4
_LEAST_ACL = 12


class NoData(bytes):
    """The data of a node with null data: ZooKeeper tells null from empty data; to the tree both are empty."""


NO_DATA = NoData()


class JuteReader(Reader):
    """Reads a record's fields in order; raises ProtocolViolation when lengths do not add up."""

    __slots__ = ()

    def int64(self) -> int:
        """Return a long."""
        return int(self.unpack(INT64)[0])

    def boolean(self) -> bool:
        """Return a bool."""
        return bool(self.unpack(BOOL)[0])

    def buffer(self) -> bytes | None:
        """Return a buffer, None for null."""
        # The code of int32 and take in one step: this is most of the cost of reading a request.
        at = self.at
        start = at + 4
        if start > self.stop:
            raise ProtocolViolation(f"a length wanted, {counted(self.stop - at, 'byte')} left")
        (length,) = _LENGTH(self.data, at)
        after = start + length
        if length < 0 or after > self.stop:
            if length == -1:
                self.at = start
                return None
            raise ProtocolViolation(f"a field of {length} bytes, {self.stop - start} are left")
        self.at = after
        return bytes(self.data[start:after])

    def node_data(self) -> bytes:
        """Return a node's data: a buffer, NO_DATA for null."""
        data = self.buffer()
        return NO_DATA if data is None else data

    def ustring(self) -> str:
        """Return a string; null is an empty one."""
        data = self.buffer()
        try:
            return "" if data is None else data.decode()
        except UnicodeDecodeError as error:
            raise ProtocolViolation(f"a string is not UTF-8: {error}") from None

    def ustrings(self) -> tuple[str, ...]:
        """Return a vector of strings."""
        return tuple(self.ustring() for _ in range(self._items(_LEAST_STRING)))

    def ustrings_in_parts(self, most: int) -> Iterator[tuple[str, ...]]:
        """Yield a vector of strings, at most so many at a time; they are read when they are asked for."""
        left = self._items(_LEAST_STRING)
        while left:
            count = min(left, most)
            left -= count
            yield tuple(self.ustring() for _ in range(count))

    def acl(self) -> tuple[Acl, ...]:
        """Return an access list."""
        return tuple(Acl(self.int32(), self.ustring(), self.ustring()) for _ in range(self._items(_LEAST_ACL)))

    def stat(self) -> Stat:
        """Return a Stat."""
        return Stat(*self.unpack(_STAT))

    def _items(self, least_bytes: int) -> int:
        number = self.int32()
        if number == -1:
            return 0
        self.check_count(number, least_bytes)
        return number


def encode_buffer(value: bytes | None) -> bytes:
    """Return a buffer; None and NO_DATA become null."""
    return _NONE if value is None or value is NO_DATA else INT32.pack(len(value)) + value


def encode_ustring(value: str) -> bytes:
    """Return a string."""
    # "surrogatepass" only so that nothing here can raise: strings decoded from UTF-8 have no surrogates.
    encoded = value.encode("utf-8", "surrogatepass")
    return INT32.pack(len(encoded)) + encoded


def encode_ustrings(values: Iterable[str]) -> bytes:
    """Return a vector of strings."""
    items = [encode_ustring(value) for value in values]
    return INT32.pack(len(items)) + b"".join(items)


def encode_acl(rows: Iterable[Acl]) -> bytes:
    """Return an access list."""
    items = [INT32.pack(row.permissions) + encode_ustring(row.scheme) + encode_ustring(row.identity) for row in rows]
    return INT32.pack(len(items)) + b"".join(items)


def encode_stat(stat: Stat) -> bytes:
    """Return a Stat: its fields in their order."""
    return _STAT.pack(*stat)
