"""Entries made by hand, byte for byte as docs/protocol.md has them, so that the log's tests rest on no encoder."""

from __future__ import annotations

from struct import pack
from zlib import crc32

from crcmod.predefined import mkPredefinedCrcFun


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


def record(payload: bytes, number: int = 0, time_delta: int = 0) -> bytes:
    """Return a record of a batch, without key and headers, whose fields each fit into a byte."""
    body = bytes((0, 2 * time_delta, 2 * number, 1, 2 * len(payload))) + payload + b"\0"
    return bytes((2 * len(body),)) + body


def batch(*records: bytes, time: int = -1, codec: int = 0, messages: int | None = None, pad: int = 0) -> bytes:
    """Return a magic-3 entry around these records; ``messages`` where it is another number than theirs."""
    count = len(records) if messages is None else messages
    fields = pack(">hiqqqhii", codec, count - 1, time, time, -1, -1, -1, count) + b"".join(records)
    behind = pack(">iiB", 9 + len(fields), -1, 2)
    before = pack(">iB", 17 + len(fields) + pad, 3)
    check = crc32(before + behind).to_bytes(4, "big")[1:]
    return before + check + behind + pack(">I", crc32c(fields)) + fields + bytes(pad)


crc32c = mkPredefinedCrcFun("crc-32c")


def gap(size: int) -> bytes:
    """Return a gap that fills ``size`` bytes; what is in it means nothing."""
    return pack(">iBI", size - 4, 0x7F, crc32(pack(">i", size - 4))) + b"\xa5" * (size - 9)
