"""CRC-32 and CRC-32C: the implementations that all messages use, and crcmod's as an independent check of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Protocol, cast
from zlib import crc32 as _crc32_of_zlib

from logd.protocol.implementation import compiled
from logd.protocol.optional_packages import needing

__all__ = [
    "CHECKSUMS",
    "CRC32",
    "CRC32C",
    "INDEPENDENT_CHECKSUMS",
    "Checksum",
    "Checksums",
    "crc32",
    "crc32c",
    "independent_crc32",
    "independent_crc32c",
]

#: With the zlib polynomial, and with Castagnoli's.
CRC32 = "crc32"
CRC32C = "crc32c"


class Checksum(Protocol):
    """A function that returns a checksum of ``data``; ``crc`` is that of the preceding bytes."""

    def __call__(self, data: bytes | memoryview, crc: int = 0, /) -> int: ...


def _crc32c_of_google(data: bytes | memoryview, crc: int = 0, /) -> int:
    """Return the CRC-32C, by the processor's own instruction where it has one. Raises MissingPackage."""
    return int(_extend()(crc, data if type(data) is bytes else bytes(data)))  # it takes bytes alone


@cache
def _extend() -> Callable[[int, bytes], int]:
    # Imported where it is used: Spark's executors have logd without its packages, and may never meet a batch.
    with needing("google-crc32c", "a batch of messages"):
        from google_crc32c import extend
    return cast("Callable[[int, bytes], int]", extend)


#: The compiled ones are by the processor's instructions, which many builds of zlib do not use.
crc32: Checksum = _crc32_of_zlib if compiled is None else compiled.crc32
crc32c: Checksum = _crc32c_of_google if compiled is None else compiled.crc32c


def independent_crc32(data: bytes | memoryview, crc: int = 0, /) -> int:
    """Return the CRC-32 as crcmod computes it, for offline verification: five times slower per message than zlib.

    Raises MissingPackage.
    """
    return _crcmod("crc-32")(data, crc)


def independent_crc32c(data: bytes | memoryview, crc: int = 0, /) -> int:
    """Return the CRC-32C as crcmod computes it, for offline verification. Raises MissingPackage."""
    return _crcmod("crc-32c")(data, crc)


@cache
def _crcmod(name: str) -> Checksum:
    with needing("crcmod", "an independent checksum"):
        import crcmod.predefined
    return cast("Checksum", crcmod.predefined.mkPredefinedCrcFun(name))


#: One implementation of each kind of checksum, by name (logd.protocol.entry has the kind of each magic).
Checksums = Mapping[str, Checksum]
CHECKSUMS: Checksums = {CRC32: crc32, CRC32C: crc32c}
INDEPENDENT_CHECKSUMS: Checksums = {CRC32: independent_crc32, CRC32C: independent_crc32c}
