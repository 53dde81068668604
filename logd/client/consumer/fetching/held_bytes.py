"""Bytes of a partition's log that were fetched and not consumed: chunks as they came, and the data being decoded."""

from __future__ import annotations

from collections import deque


class HeldBytes:
    """The bytes held of one partition, in order and without holes; ``position`` is that of the next one to decode."""

    __slots__ = ("_chunks", "at", "data", "needed", "position", "size")

    def __init__(self) -> None:
        #: The bytes being decoded, and the index in them of the next one.
        self.data = b""
        self.at = 0
        self.position = 0
        #: Bytes held, in the chunks and in the data.
        self.size = 0
        #: The length of the entry at hand if it is longer than the data; else 0.
        self.needed = 0
        self._chunks: deque[bytes | memoryview] = deque()

    def __bool__(self) -> bool:
        """Return whether there is data to decode, without taking further chunks."""
        return self.at < len(self.data)

    @property
    def end(self) -> int:
        """Return the position behind the data, chunks not counted."""
        return self.position + len(self.data) - self.at

    def add(self, chunk: bytes | memoryview) -> None:
        """Add a chunk that follows the bytes held."""
        self._chunks.append(chunk)
        self.size += len(chunk)

    def more(self, needed: int = 0) -> bool:
        """Append the next chunks to the rest of the data, up to ``needed`` bytes; return whether there were any."""
        self.needed = needed
        chunks = self._chunks
        if not chunks:
            if self.at:
                self.data = self.data[self.at :]
                self.size -= self.at
                self.at = 0
            return False
        rest = len(self.data) - self.at
        if rest == 0:
            self.data = bytes(chunks.popleft())
        else:
            pieces: list[bytes | memoryview] = [memoryview(self.data)[self.at :], chunks.popleft()]
            length = rest + len(pieces[1])
            while length < needed and chunks:
                pieces.append(chunks.popleft())
                length += len(pieces[-1])
            self.data = b"".join(pieces)
        self.size -= self.at
        self.at = 0
        return True

    def use(self, at: int, position: int) -> None:
        """Continue at index ``at`` of the data, which is at ``position``; drop the data when it is used up."""
        self.at, self.position, self.needed = at, position, 0
        if at >= len(self.data):
            self._drop_data()

    def skip(self, position: int) -> None:
        """Continue at ``position``, inside the data or at its end. Used-up data stays until more is appended."""
        self.at += position - self.position
        self.position = position

    def take(self) -> tuple[int, bytes | memoryview] | None:
        """Take the next bytes as they came, with their position; None if no bytes are held."""
        if self.at < len(self.data):
            data: bytes | memoryview = self.data[self.at :]
            self._drop_data()
        elif self._chunks:
            data = self._chunks.popleft()
            self.size -= len(data)
        else:
            return None
        position = self.position
        self.position += len(data)
        return position, data

    def clear(self, position: int) -> None:
        """Drop all bytes, to continue at ``position``."""
        self._chunks.clear()
        self.data, self.at, self.size, self.needed = b"", 0, 0, 0
        self.position = position

    def _drop_data(self) -> None:
        self.size -= len(self.data)
        self.data, self.at = b"", 0
