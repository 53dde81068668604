"""A snapshot of the whole tree in one file.

::

    head    "LGDS" | int32 format = 1 | int64 zxid | uint32 crc of the 16 bytes before
    piece   int32 length | uint32 crc | length bytes
    end     int32 -1 | uint32 crc

Named ``snapshot.<zxid, 16 hex digits>``, after the last change in it. Each crc begins with the one before it, the first
piece's with the head's, and the end's covers nothing more, so a missing, duplicate or misplaced piece is noticed.
Written to a temporary file, synced, renamed; the folder is synced before older files are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from zlib import crc32

MAGIC = b"LGDS"
FORMAT = 1
_HEAD = Struct(">4siq")
_CRC = Struct(">I")
_PIECE = Struct(">iI")
_END = -1


def encode_snapshot(zxid: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the file's bytes."""
    head = _HEAD.pack(MAGIC, FORMAT, zxid)
    crc = crc32(head)
    yield head + _CRC.pack(crc)
    for piece in pieces:
        crc = crc32(piece, crc)
        yield _PIECE.pack(len(piece), crc) + piece
    yield _PIECE.pack(_END, crc)


def decode_snapshot(data: bytes) -> tuple[int, list[bytes]]:
    """Decode a whole file: its zxid and pieces. Raises ValueError, naming the place, when it is damaged."""
    start = _HEAD.size + _CRC.size
    if len(data) < start or crc32(data[: _HEAD.size]) != _CRC.unpack_from(data, _HEAD.size)[0]:
        raise ValueError("its head is damaged")
    magic, number, zxid = _HEAD.unpack_from(data)
    if magic != MAGIC or number != FORMAT:
        raise ValueError(f"format {magic!r} {number}; this release of logd knows {MAGIC!r} {FORMAT} only")
    crc = crc32(data[: _HEAD.size])
    pieces: list[bytes] = []
    at = start
    while at + _PIECE.size <= len(data):
        length, expected = _PIECE.unpack_from(data, at)
        after = at + _PIECE.size
        if length == _END:
            if expected != crc or after != len(data):
                break
            return zxid, pieces
        piece = data[after : after + length] if length >= 0 else b""
        crc = crc32(piece, crc)
        if length < 0 or len(piece) != length or crc != expected:
            break
        pieces.append(piece)
        at = after + length
    raise ValueError(f"it is damaged at byte {at}")
