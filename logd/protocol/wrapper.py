"""Wrappers: one magic-1 entry whose payload is a compressed message set, and the rule that numbers the messages in it.

    int32 N | 01 | attributes, & 3 = codec | uint32 crc of the payload | payload

The position after j of its n messages is wrapper_end - (n - j) for j >= 1, and the wrapper's start for j = 0. So the
positions in one wrapper increase and fit between its ends as long as it holds no more messages than it has bytes. If a
foreign wrapper breaks that rule, every position but the last is the wrapper's start.
"""

from __future__ import annotations

from logd.protocol.codecs import CODEC_NAMES, CODEC_NUMBERS, compress, decompress, may_be
from logd.protocol.entry import CODEC_MASK, encode_wrapped, is_mark_payload

#: The default limits of a decompressed wrapper, in bytes (four frames of the default size) and in messages.
DEFAULT_MAX_DECOMPRESSED = 64 << 20
DEFAULT_MAX_DECOMPRESSED_MESSAGES = 1_000_000


def encode_wrapper(codec: str, message_set: bytes) -> bytes:
    """Return one magic-1 entry that holds ``message_set`` compressed; ``none`` is not a wrapper's codec."""
    return encode_wrapped(CODEC_NUMBERS[codec], compress(codec, message_set))


def may_be_produced(attributes: int, payload: bytes | memoryview) -> bool:
    """Return whether producers may send a wrapper with this payload: it may be of its codec, and is no epoch's mark."""
    return may_be_wrapper(attributes, payload) and not is_mark_payload(payload)


def may_be_wrapper(attributes: int, payload: bytes | memoryview) -> bool:
    """Return whether the payload begins as data of the codec in ``attributes`` does; the cost does not grow with it."""
    return may_be(CODEC_NAMES[attributes & CODEC_MASK], payload)


def open_wrapper(attributes: int, payload: bytes, max_bytes: int) -> bytes:
    """Return the message set inside, at most ``max_bytes``; raise CorruptMessage or WrapperTooLarge."""
    return decompress(CODEC_NAMES[attributes & CODEC_MASK], payload, max_bytes)
