"""Entries made by hand, byte for byte as docs/protocol.md has them, so that the log's tests rest on no encoder."""

from __future__ import annotations

from struct import pack
from zlib import crc32


def plain(payload: bytes) -> bytes:
    """Return a magic-0 entry."""
    return pack(">iBI", 5 + len(payload), 0, crc32(payload)) + payload


def wrapped(payload: bytes, codec: int = 0) -> bytes:
    """Return a magic-1 entry."""
    return pack(">iBBI", 6 + len(payload), 1, codec, crc32(payload)) + payload


def timed(payload: bytes, timestamp: int) -> bytes:
    """Return a magic-2 entry without key and headers."""
    body = pack(">BqiB", 0, timestamp, -1, 0) + payload
    return pack(">iBI", 5 + len(body), 2, crc32(body)) + body


def gap(size: int) -> bytes:
    """Return a gap that fills ``size`` bytes; what is in it means nothing."""
    return pack(">iBI", size - 4, 0x7F, crc32(pack(">i", size - 4))) + b"\xa5" * (size - 9)
