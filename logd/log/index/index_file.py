"""The format of a segment's index file.

    file     := "logdidx1" | int64 segment start | chunk*
    chunk    := int32 count | uint32 crc of the boundaries | boundary * count
    boundary := int64 position | int64 append_ms | int64 highest_ms

Every chunk but the last holds 512 boundaries, so a chunk's file position follows from its number. All integers are
big-endian. The file is not synced as it grows, so after a crash a chunk may be missing or torn. A chunk with a checksum
mismatch invalidates the whole index. After a crash, boundaries behind the checkpoint are never trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, pack, unpack
from typing import NamedTuple
from zlib import crc32

from logd.interfaces import IFile

_HEADER = Struct(">8sq")
_CHUNK_HEAD = Struct(">iI")
_SIGNATURE = b"logdidx1"
_BOUNDARY_BYTES = 24

HEADER_BYTES = _HEADER.size
#: Boundaries in a full chunk. With one boundary each 4 KiB, a chunk is written once in 2 MiB of log.
CHUNK = 512
CHUNK_BYTES = _CHUNK_HEAD.size + CHUNK * _BOUNDARY_BYTES


class Boundary(NamedTuple):
    """A position where an entry begins (or the segment ends), with times of the entries before it."""

    #: Position in the partition's log.
    position: int
    #: Append time of the entry here, in ms since the epoch; never less than that of the previous boundary.
    append_ms: int
    #: The highest timestamp of the segment's messages before this position, -1 if there is none.
    highest_ms: int


class WrongIndex(ValueError):
    """The index file is damaged or belongs to another segment."""


def encode_header(start: int) -> bytes:
    """Return the header of the index of the segment that starts at ``start``."""
    return _HEADER.pack(_SIGNATURE, start)


def encode_chunk(boundaries: Sequence[Boundary]) -> bytes:
    """Return one chunk."""
    flat = [number for boundary in boundaries for number in boundary]
    body = pack(f">{len(flat)}q", *flat)
    return _CHUNK_HEAD.pack(len(boundaries), crc32(body)) + body


def decode_chunk(data: bytes) -> list[Boundary]:
    """Return the boundaries of one encoded chunk; raise WrongIndex."""
    if len(data) < _CHUNK_HEAD.size:
        raise WrongIndex("a chunk is cut off")
    count, crc = _CHUNK_HEAD.unpack_from(data)
    body = data[_CHUNK_HEAD.size :]
    if not 0 < count <= CHUNK or len(body) != count * _BOUNDARY_BYTES or crc32(body) != crc:
        raise WrongIndex("a chunk has a wrong length or a checksum mismatch")
    flat = unpack(f">{3 * count}q", body)
    return [Boundary(*flat[at : at + 3]) for at in range(0, 3 * count, 3)]


def chunk_position(number: int) -> int:
    """Return the file position of chunk ``number``."""
    return HEADER_BYTES + number * CHUNK_BYTES


class IndexFile:
    """An index file that is open for reading. Any thread may create one; each method may raise OSError, WrongIndex."""

    def __init__(self, file: IFile, start: int) -> None:
        self._file = file
        if file.read_at(0, HEADER_BYTES) != encode_header(start):
            raise WrongIndex("the header is not that of this segment's index")
        #: The number of chunks; the last one may not be full.
        self.chunks = -(-(file.size() - HEADER_BYTES) // CHUNK_BYTES)

    def chunk(self, number: int) -> list[Boundary]:
        """Return the boundaries of chunk ``number``."""
        return decode_chunk(self._file.read_at(chunk_position(number), CHUNK_BYTES))
