"""The partition of a key, by the rule that producers in all languages share (docs/clients.md)."""

from __future__ import annotations

from logd.protocol.checksums import crc32


def partition_of_key(key: bytes, count: int) -> int:
    """Return ``(crc32(key) * 2654435761 mod 2^32) * count / 2^32``, rounded down: a number below ``count``.

    The remainder of crc32 alone would put keys that differ in one character into few partitions, since the checksum is
    linear; multiplying by 2^32 over the golden ratio and taking the high bits spreads them (Knuth, volume 3, 6.4).
    """
    return ((crc32(key) * 2654435761) & 0xFFFFFFFF) * count >> 32
