"""Checks of single entries at any position of a file, in bounded memory and with any checksum implementation.

Recovery (scan.py) only goes forward and stops at the first entry that is not sound. This module examines the entries
around such a position, where nothing unchecked may be trusted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from attrs import define, field

from logd.errors import CorruptMessage
from logd.log.damage.uncached_file import StoredBytes
from logd.protocol.checksums import CHECKSUMS, Checksums
from logd.protocol.entry import (
    LAYOUTS,
    LEAST_BYTES,
    MAGIC_AT,
    MOST_HEAD_BYTES,
    PLAIN,
    Buffer,
    EntryHead,
    head_at,
    holds_several,
    size_at,
)
from logd.protocol.slices import decode_in_slices

_BLOCK = 1 << 18
_BLOCKS = 8

#: ``readable(data, begin, end)`` returns the reason why no consumer can read an entry, empty if consumers can.
Readable = Callable[[Buffer, int, int], str]


def contents_problem(data: Buffer, at: int, stop: int) -> str:
    """Return the reason why no consumer can read an entry whose checksum matches, empty if consumers can.

    The checksum covers neither the magic nor the attributes of magic 1. So a magic damaged from 0 to 2, or a damaged
    codec, is found here. A magic damaged from 2 to 0, or a codec damaged to none, is not: consumers receive a message
    that was never sent. A wrapper that is too large to be opened is not judged, since other readers may allow more.
    """
    if not holds_several(data, at):
        check = LAYOUTS[data[at + MAGIC_AT]].check_fields
        if check is not None:
            try:
                check(data, at, stop)
            except ValueError as error:
                return str(error)
        return ""
    for decoded in decode_in_slices(bytes(data[at:stop])):
        if isinstance(decoded.error, CorruptMessage):
            return decoded.error.reason
    return ""


@define(eq=False)
class Entries:
    """The entries of ``file`` up to ``size``. Positions are file positions. Every method may raise OSError."""

    file: StoredBytes
    size: int
    checksums: Checksums = CHECKSUMS
    #: Returns the reason why an entry whose checksum matches cannot be read; None: only checksums count.
    readable: Readable | None = contents_problem
    #: A few blocks of the file, since a search for evidence returns to the same positions.
    _blocks: OrderedDict[int, bytes] = field(factory=OrderedDict)

    def read(self, position: int, count: int) -> bytes:
        """Return ``count`` bytes, fewer at the file's end."""
        count = min(count, self.size - position)
        if count <= 0:
            return b""
        number, at = divmod(position, _BLOCK)
        if at + count > _BLOCK:
            return self.file.read_at(position, count)
        block = self._blocks.get(number)
        if block is None:
            block = self._blocks[number] = self.file.read_at(number * _BLOCK, _BLOCK)
            if len(self._blocks) > _BLOCKS:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(number)
        return block[at : at + count]

    def claimed_end(self, position: int) -> int:
        """Return the end of the entry at ``position`` by its own length, 0 if the head is invalid.

        The end is unverified and may lie behind the file's end.
        """
        size = size_at(self.read(position, LEAST_BYTES))
        return position + size if size else 0

    def problem(self, position: int) -> str:
        """Return the reason why the entry at ``position`` is not sound, empty if it is."""
        head = self._head(position)
        if isinstance(head, str):
            return head
        problem = self._checksum_problem(position, head)
        if problem or head.is_gap or head.magic == PLAIN or self.readable is None:
            return problem
        return self.readable(self.read(position, head.size), 0, head.size)

    def checksum_problem(self, position: int) -> str:
        """Return the reason why the entry at ``position`` is incomplete or its checksum wrong, empty if neither."""
        head = self._head(position)
        return head if isinstance(head, str) else self._checksum_problem(position, head)

    def is_gap(self, position: int) -> bool:
        """Return whether the entry at ``position``, which is sound, is a gap."""
        head = self._head(position)
        return not isinstance(head, str) and head.is_gap

    def _head(self, position: int) -> EntryHead | str:
        """Return the head of the entry at ``position`` if the entry is complete, otherwise the problem as text."""
        data = self.read(position, MOST_HEAD_BYTES)
        if len(data) < LEAST_BYTES:
            return f"the last entry is cut off after {len(data)} bytes"
        try:
            head = head_at(data, 0, self.checksums)
        except ValueError as error:
            return str(error)
        size = size_at(data) if head is None else head.size
        if head is None or position + size > self.size:
            return f"an entry of {size} bytes has only {self.size - position}"
        return head

    def _checksum_problem(self, position: int, head: EntryHead) -> str:
        checksum = self.checksums[head.layout.checksum]
        at, stop = position + head.checked_from, position + head.checked_to
        found = 0
        while at < stop:
            piece = self.read(at, min(_BLOCK - at % _BLOCK, stop - at))
            if not piece:
                return "the file became shorter"
            found = checksum(piece, found)
            at += len(piece)
        if found == head.checksum:
            return ""
        return "checksum mismatch in a gap" if head.is_gap else "checksum mismatch"

    def is_sound(self, position: int) -> bool:
        """Return whether the entry at ``position`` is complete and its checksum matches."""
        return not self.problem(position)
