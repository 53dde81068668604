"""Follows the lengths of entries through raw bytes, to know which whole entries were handed over."""

from __future__ import annotations

from logd.protocol import loops
from logd.protocol.entry import LENGTH_BYTES

_NEVER = 1 << 63


class EntryBoundaries:
    """The end of the last complete entry, as pieces of a partition's log pass by.

    Nothing but the length fields is looked at. A position inside a compressed wrapper means something
    (docs/protocol.md), so what a group commits has to be an entry's boundary, never just the end of a piece.
    """

    def __init__(self, position: int) -> None:
        """Begin at ``position``, where an entry begins."""
        self.position = position
        #: Bytes at the end of what passed that belong to an entry that is not complete.
        self._open = 0
        #: Bytes of the entry that is open which are still to come; 0 while its length is not known.
        self._missing = 0
        #: What has come of a length field that a piece cut.
        self._head = b""

    @property
    def end(self) -> int:
        """Return the position where the next piece begins."""
        return self.position + self._open

    def passed(self, data: bytes | memoryview) -> int:
        """Take the next piece; return the boundary behind its last complete entry."""
        at, end = 0, len(data)
        if self._missing:
            if self._missing > end:
                self._missing -= end
                self._open += end
                return self.position
            at = self._missing
            self.position += self._open + at
            self._open = self._missing = 0
        elif self._head:
            data = self._head + bytes(data)
            self._head, end = b"", len(data)
            self._open = 0
        ends = loops.ends_of_set(data, at)
        missing = 0
        if ends and ends[-1] > end:
            missing = ends.pop() - end
        if ends:
            self.position += ends[-1] - at
            at = ends[-1]
        if not missing and end - at >= LENGTH_BYTES:
            missing = _NEVER  # no entry has such a length: a reader stops there too
        if missing:
            self._missing = missing
            self._open = end - at
            return self.position
        if at < end:
            self._head = bytes(data[at:])
            self._open = end - at
        return self.position
