"""Gaps: what stands in the place of an entry that was removed, so that no id after it changes.

    int32 N | 7f | uint32 crc of the four bytes of N | N - 5 bytes that mean nothing

Only the first nine bytes are ever written or checked; those behind them may be a hole in the file.
"""

from __future__ import annotations

from struct import Struct

from logd.protocol.checksums import crc32

_HEAD = Struct(">iBI")
_LENGTH = Struct(">i")

GAP_MAGIC = 0x7F
#: The bytes of a gap that mean something, and so the least room that a gap can fill. Every entry is at least as long.
GAP_HEAD_BYTES = _HEAD.size


def encode_gap(total_bytes: int) -> bytes:
    """Return the first nine bytes of a gap that fills ``total_bytes``, its own length prefix included."""
    if not GAP_HEAD_BYTES <= total_bytes < 1 << 31:
        raise ValueError(f"a gap fills {GAP_HEAD_BYTES} bytes to 2 GiB, not {total_bytes}")
    length = total_bytes - 4
    return _HEAD.pack(length, GAP_MAGIC, crc32(_LENGTH.pack(length)))


def gap_length(data: bytes | memoryview, at: int = 0) -> int:
    """Return how many bytes the gap at ``at`` fills, or 0 if none begins there (or fewer than nine bytes are left)."""
    if len(data) - at < GAP_HEAD_BYTES:
        return 0
    length, magic, crc = _HEAD.unpack_from(data, at)
    if magic != GAP_MAGIC or length < GAP_HEAD_BYTES - 4 or crc != crc32(data[at : at + 4]):
        return 0
    return int(length) + 4
