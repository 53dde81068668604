"""Two implementations of CRC-32: zlib's for all messages, and crcmod's as an independent check."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Protocol, cast
from zlib import crc32

from logd.protocol.optional_packages import needing

__all__ = ["CHECKSUMS", "CRC32", "INDEPENDENT_CHECKSUMS", "Checksum", "Checksums", "crc32", "independent_crc32"]

CRC32 = "crc32"


class Checksum(Protocol):
    """A function that returns the CRC-32 of ``data``; ``crc`` is that of the preceding bytes."""

    def __call__(self, data: bytes | memoryview, crc: int = 0, /) -> int: ...


def independent_crc32(data: bytes | memoryview, crc: int = 0, /) -> int:
    """Return the CRC-32 as crcmod computes it, for offline verification: five times slower per message than zlib.

    Raises MissingPackage.
    """
    return _crcmod()(data, crc)


@cache
def _crcmod() -> Checksum:
    with needing("crcmod", "an independent checksum"):
        import crcmod.predefined
    return cast("Checksum", crcmod.predefined.mkPredefinedCrcFun("crc-32"))


#: One implementation of each kind of checksum, by name (logd.protocol.entry has the kind of each magic).
Checksums = Mapping[str, Checksum]
CHECKSUMS: Checksums = {CRC32: crc32}
INDEPENDENT_CHECKSUMS: Checksums = {CRC32: independent_crc32}
