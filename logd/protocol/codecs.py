"""Compression of message sets and batches: gzip, snappy in xerial framing, lz4 frames and zstd.

The size of what is decompressed is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import Struct
from types import ModuleType

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.optional_packages import needing

#: Codec names and the number of each in a wrapper's attributes. zstd is an addition of logd.
CODEC_NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "zstd": 3}
CODEC_NAMES = {number: name for name, number in CODEC_NUMBERS.items()}
#: The same for a batch's attributes, which are Kafka's.
BATCH_CODEC_NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
BATCH_CODEC_NAMES = {number: name for name, number in BATCH_CODEC_NUMBERS.items()}

_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEAD = _XERIAL_MAGIC + Struct(">ii").pack(1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024  # as SnappyOutputStream writes
_GZIP_MAGIC = b"\x1f\x8b\x08"  # the last byte is deflate, the only method that there is
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"  # behind a byte from 50 to 5f
_SNAPPY_RATIO = 32  # the most that a byte of snappy can become is less: 64 bytes take a copy of 3
_LENGTH = Struct(">i")
_LITTLE_LENGTH = Struct("<I")
_GROWTH = 8
_GZIP_RATIO = 1032  # the most that a byte of deflate can become
#: The reader's setting that bounds what is decompressed, as WrapperTooLarge names it.
_SETTING = "max_decompressed"
_NO_ROOM = "write whole buffer"  # in cramjam's error when the result does not fit, and no other


@cache
def _cramjam() -> ModuleType:
    """Return the library, which only compressed sets need. Raises MissingPackage."""
    with needing("cramjam", "a compressed message set"):
        import cramjam
    return cramjam


def compress(codec: str, data: bytes) -> bytes:
    """Return ``data`` compressed; raise ValueError for a codec that is not gzip, snappy, lz4 or zstd."""
    cramjam = _cramjam()
    if codec == "gzip":
        return bytes(cramjam.gzip.compress(data))
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(data, level=3))
    if codec == "snappy":
        pieces = [_XERIAL_HEAD]
        for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
            pieces += (_LENGTH.pack(len(block)), block)
        return b"".join(pieces)
    if codec == "lz4":
        # Kafka's Java clients read frames of independent blocks only.
        frame = cramjam.lz4.Compressor(block_linked=False)
        frame.compress(data)
        return bytes(frame.finish())
    raise ValueError(f"compression {codec!r} is not known: none, gzip, snappy, lz4 or zstd")


def may_be(codec: str, data: bytes | memoryview) -> bool:
    """Return whether ``data``, or data that begins with it, may be of ``codec``. Nothing is decompressed."""
    if codec == "gzip":
        return data[:3] == _GZIP_MAGIC
    if codec == "zstd":
        return data[:4] == _ZSTD_MAGIC or (data[1:4] == _ZSTD_SKIPPABLE_MAGIC and data[0] >> 4 == 5)
    if codec == "snappy":
        return data[:8] == _XERIAL_MAGIC or _may_be_snappy_block(data)
    return True


def _may_be_snappy_block(data: bytes | memoryview) -> bool:
    """Return whether the size is possible and the first element a literal that fits, as nothing can be copied yet."""
    size = at = 0
    for at, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            break
    else:
        return False
    left = len(data) - at - 1
    if not size or not left:
        return not (size or left)
    tag = data[at + 1]
    literal = (tag >> 2) + 1
    if tag & 3 or size > _SNAPPY_RATIO * left:
        return False
    return literal > 60 or literal <= min(size, left - 1)


def decompress(codec: str, data: bytes, max_bytes: int) -> bytes:
    """Return ``data`` decompressed, at most ``max_bytes``.

    Raises CorruptMessage if ``data`` is truncated or not of that codec, and WrapperTooLarge if the result would be
    larger. No more than ``max_bytes`` are ever allocated for the result, whatever the headers in ``data`` claim.
    """
    cramjam = _cramjam()
    if codec == "gzip":
        # A gzip file ends with its size modulo 2**32, which is a good first guess if it is possible.
        claimed = _LITTLE_LENGTH.unpack_from(data, len(data) - 4)[0] if len(data) >= 4 else 0
        guess = min(claimed, _GZIP_RATIO * len(data))
        return _into_bounded(cramjam.gzip.decompress_into, codec, data, guess, max_bytes)
    if codec == "zstd":
        return _into_bounded(cramjam.zstd.decompress_into, codec, data, 8 * len(data), max_bytes)
    if codec == "lz4":
        return _into_bounded(cramjam.lz4.decompress_into, codec, data, 8 * len(data), max_bytes)
    if codec == "snappy":
        if data.startswith(_XERIAL_MAGIC):
            return _xerial(data, max_bytes)
        return _snappy_block(data, max_bytes)
    raise ValueError(f"compression {codec!r} is not known: gzip, snappy, lz4 or zstd")


def _into_bounded(
    decompress_into: Callable[[bytes, bytearray], int], codec: str, data: bytes, guess: int, max_bytes: int
) -> bytes:
    """Decompress into a buffer of the guessed size, then into larger ones up to the bound.

    All tries together cost less than a seventh more than the last one. A decompression bomb meets its buffer's end.
    """
    if not data:
        raise CorruptMessage(f"{codec} data is empty")
    cramjam = _cramjam()
    size = min(max(guess, 1024), max_bytes)
    while True:
        buffer = bytearray(size)
        try:
            count = decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            if _NO_ROOM not in str(error):
                raise CorruptMessage(f"{codec} data is damaged: {error}") from None
            if size >= max_bytes:
                raise WrapperTooLarge(_SETTING, max_bytes) from None
            size = min(size * _GROWTH, max_bytes)
        else:
            return bytes(memoryview(buffer)[:count])


def _xerial(data: bytes, max_bytes: int) -> bytes:
    """Decompress the framing of Java's SnappyOutputStream: a head of 16 bytes, then blocks, each behind its length."""
    at = len(_XERIAL_HEAD)
    if len(data) < at:
        raise CorruptMessage("snappy data is truncated in its head")
    pieces = []
    made = 0
    while at < len(data):
        length = _LENGTH.unpack_from(data, at)[0] if len(data) - at >= 4 else -1
        at += 4
        if length < 0 or length > len(data) - at:
            raise CorruptMessage("snappy data is truncated, or a block's length is wrong")
        piece = _snappy_block(data[at : at + length], max_bytes, made)
        pieces.append(piece)
        made += len(piece)
        at += length
    return b"".join(pieces)


def _snappy_block(data: bytes, max_bytes: int, made: int = 0) -> bytes:
    """Decompress one raw block; ``made`` is the size of the blocks before it.

    A block begins with its decompressed size. A block whose size is too large is refused without decompression.
    """
    cramjam = _cramjam()
    try:
        size = cramjam.snappy.decompress_raw_len(data)
        if size > _SNAPPY_RATIO * len(data):
            raise CorruptMessage(f"snappy data is damaged: {len(data)} bytes cannot become {size}")
        if made + size > max_bytes:
            raise WrapperTooLarge(_SETTING, max_bytes)
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise CorruptMessage(f"snappy data is damaged: {error}") from None
