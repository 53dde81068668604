"""CRC-32 twice: zlib's for every message on the way, and crcmod's as the independent second opinion."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Protocol, cast
from zlib import crc32

from logd.protocol.optional_packages import needing

__all__ = ["CHECKSUMS", "CRC32", "INDEPENDENT_CHECKSUMS", "Checksum", "Checksums", "crc32", "independent_crc32"]

CRC32 = "crc32"


class Checksum(Protocol):
    """CRC-32 of ``data``; ``crc`` is that of what came before it."""

    def __call__(self, data: bytes | memoryview, crc: int = 0, /) -> int: ...


def independent_crc32(data: bytes | memoryview, crc: int = 0, /) -> int:
    """The same polynomial from other hands, for offline verification: five times slower per message than zlib's.

    Raises MissingPackage.
    """
    return _crcmod()(data, crc)


@cache
def _crcmod() -> Checksum:
    with needing("crcmod", "an independent checksum"):
        import crcmod.predefined
    return cast("Checksum", crcmod.predefined.mkPredefinedCrcFun("crc-32"))


#: One implementation of every checksum that an entry may have, by name (logd.protocol.entry says which has which).
Checksums = Mapping[str, Checksum]
CHECKSUMS: Checksums = {CRC32: crc32}
INDEPENDENT_CHECKSUMS: Checksums = {CRC32: independent_crc32}
