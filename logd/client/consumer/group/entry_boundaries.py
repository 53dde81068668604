"""Entry boundaries in raw bytes, found by the length fields, to know which whole entries were handed over."""

from __future__ import annotations

from logd.protocol import loops
from logd.protocol.entry import LENGTH_BYTES

_NEVER = 1 << 63


class EntryBoundaries:
    """The end of the last complete entry, as pieces of a partition's log pass by.

    Only the length fields are read. A position inside a compressed wrapper has a meaning of its own
    (docs/protocol.md), so a group must commit an entry's boundary, never just the end of a piece.
    """

    def __init__(self, position: int) -> None:
        """Begin at ``position``, which must be an entry's beginning."""
        self.position = position
        #: Bytes at the end of the last piece that belong to an incomplete entry.
        self._open = 0
        #: Missing bytes of the incomplete entry; 0 while its length is not known.
        self._missing = 0
        #: The first bytes of a length field that a piece cut.
        self._head = b""

    @property
    def end(self) -> int:
        """Return the position at which the next piece begins."""
        return self.position + self._open

    def passed(self, data: bytes | memoryview) -> int:
        """Add the next piece; return the boundary behind its last complete entry."""
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
            missing = _NEVER  # no entry has such a length: a reader stops here too
        if missing:
            self._missing = missing
            self._open = end - at
            return self.position
        if at < end:
            self._head = bytes(data[at:])
            self._open = end - at
        return self.position
