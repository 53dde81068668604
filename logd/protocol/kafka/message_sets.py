"""Message sets of Kafka's clients before 0.11, of its magics 0 and 1, as batches.

    set      := (int64 offset | int32 size | message)*
    message  := uint32 crc | int8 magic | int8 attributes | from magic 1 on: int64 time, ms | bytes key | bytes value
    bytes    := int32 length (-1 for null) | bytes

The crc is CRC-32 over all behind it. A message with a codec in its attributes is a wrapper: its value is a compressed
set. In magic 0 the header checksum of an lz4 frame covers the frame's first four bytes too, which the format forbids.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, error
from zlib import crc32

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.batch import encode_batch
from logd.protocol.batch_layout import BATCH_CODEC_MASK
from logd.protocol.codecs import BATCH_CODEC_NAMES, decompress
from logd.protocol.message import Message

#: The most bytes that a compressed set may become: it is read before other connections have their turn.
MOST_BYTES = 8 << 20
#: The most messages of a set, for the same reason: each takes some 5 us.
MOST_MESSAGES = 20_000
_ENTRY = Struct(">qi")
_HEAD = Struct(">IBb")
_CRC_BYTES = 4
_TIME = Struct(">q")
_LENGTH = Struct(">i")
_LEAST_BYTES = 14
_LZ4 = "lz4"
_LZ4_MAGIC_BYTES = 4
#: In the first byte of an lz4 frame's descriptor: the descriptor has the content's size (8 bytes), a dictionary's id.
_LZ4_CONTENT_SIZE, _LZ4_DICTIONARY = 0x08, 0x01


class TooManyMessages(ValueError):
    """A set has more messages than are taken at a time."""


def batch_of_message_set(data: bytes) -> bytes:
    """Return a batch, an entry, of the messages of a set, compressed as the set is.

    Raises ValueError for a set that is damaged, cut off or empty, CorruptMessage for one that cannot be decompressed,
    WrapperTooLarge for one that would become more than MOST_BYTES, TooManyMessages for more than MOST_MESSAGES.
    """
    codecs: list[str] = []
    messages: list[Message] = []
    for codec, magic, value, message in _messages(data):
        if codec == "none":
            messages.append(message)
            continue
        codecs.append(codec)
        if value is None:
            raise ValueError("a compressed set that is null")
        inner = decompress(codec, _sound_lz4(value) if codec == _LZ4 and not magic else value, MOST_BYTES)
        for nested, _, _, each in _messages(inner):
            if nested != "none":
                raise ValueError("a compressed set inside a compressed set")
            messages.append(each)
    if not messages:
        raise ValueError("a set without messages")
    return encode_batch(messages, codecs[0] if codecs else "none")


def _messages(data: bytes) -> Iterator[tuple[str, int, bytes | None, Message]]:
    """Yield codec, magic, value, and what a message without a codec is."""
    at = count = 0
    while at < len(data):
        count += 1
        if count > MOST_MESSAGES:
            raise TooManyMessages(f"a message set of more than {MOST_MESSAGES} messages; send smaller sets")
        try:
            _, size = _ENTRY.unpack_from(data, at)
            begin = at + _ENTRY.size
            at = begin + size
            if size < _LEAST_BYTES or at > len(data):
                raise ValueError(f"a message of {size} bytes, {len(data) - begin} are left")
            crc, magic, attributes = _HEAD.unpack_from(data, begin)
            if crc32(data[begin + _CRC_BYTES : at]) != crc:
                raise ValueError("the checksum of a message does not hold")
            if magic > 1:
                raise ValueError(f"a message of magic {magic} in a set of magics 0 and 1")
            position = begin + _HEAD.size
            time = None
            if magic:
                (found,) = _TIME.unpack_from(data, position)
                time = found if found >= 0 else None
                position += _TIME.size
            key, position = _bytes(data, position, at)
            value, position = _bytes(data, position, at)
        except error as problem:
            raise ValueError(str(problem)) from None
        codec = BATCH_CODEC_NAMES.get(attributes & BATCH_CODEC_MASK)
        if codec is None or codec == "zstd":
            raise ValueError(f"codec {attributes & BATCH_CODEC_MASK}, which message sets do not have")
        payload = b"" if value is None and key is None else value
        yield codec, magic, value, Message(payload, key=key, timestamp=time)


def _bytes(data: bytes, at: int, stop: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    if length < 0:
        return None, at
    if at + length > stop:
        raise ValueError(f"a field of {length} bytes, {stop - at} are left")
    return data[at : at + length], at + length


def _sound_lz4(frame: bytes) -> bytes:
    """Return an lz4 frame with the header checksum that the format asks for."""
    if len(frame) < _LZ4_MAGIC_BYTES + 3:
        raise CorruptMessage("an lz4 frame without a header")
    flags = frame[_LZ4_MAGIC_BYTES]
    size = 2 + 8 * bool(flags & _LZ4_CONTENT_SIZE) + 4 * bool(flags & _LZ4_DICTIONARY)
    stop = _LZ4_MAGIC_BYTES + size
    return frame[:stop] + bytes((_xxh32(frame[_LZ4_MAGIC_BYTES:stop]) >> 8 & 0xFF,)) + frame[stop + 1 :]


_PRIMES = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_WORD = Struct("<I")


def _xxh32(data: bytes) -> int:
    """Return XXH32 with seed 0 of fewer than 16 bytes."""
    _, second, third, fourth, fifth = _PRIMES
    value = fifth + len(data)
    at = 0
    while at + _WORD.size <= len(data):
        (word,) = _WORD.unpack_from(data, at)
        value = _rotated(value + word * third, 17) * fourth
        at += _WORD.size
    for each in data[at:]:
        value = _rotated(value + each * fifth, 11) * _PRIMES[0]
    value &= 0xFFFFFFFF
    value = (value ^ value >> 15) * second & 0xFFFFFFFF
    value = (value ^ value >> 13) * third & 0xFFFFFFFF
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> 32 - bits) & 0xFFFFFFFF


#: The errors of ``batch_of_message_set``.
MESSAGE_SET_ERRORS = (ValueError, CorruptMessage, WrapperTooLarge)
