"""CRC-32 twice: zlib's for every message on the way, and crcmod's as the independent second opinion."""

from __future__ import annotations

from functools import cache
from typing import Protocol, cast
from zlib import crc32

from logd.protocol.packages import needing

__all__ = ["Checksum", "crc32", "independent_crc32"]


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
