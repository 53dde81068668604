"""The layout of a stored entry. No other module knows the position of any field.

    entry    := int32 N | N bytes of message                    N excludes itself: an entry takes 4 + N bytes
    magic 0  := 00 | uint32 crc | payload
    magic 1  := 01 | uint8 attributes | uint32 crc | payload    attributes & 3 = codec
    magic 2  := 02 | uint32 crc | uint8 attributes | int64 timestamp | int32 key_length | key | headers | value
    batch    := 03 | the fields that logd.protocol.batch_layout has | records | pad
    gap      := 7f | uint32 crc of the four bytes of N | N - 5 bytes that mean nothing

The checksum of the magics 0 to 2 covers all bytes behind it. A gap replaces an entry that was removed, so that no id
after it changes. Only its first nine bytes are ever written or checked: the rest may be a hole in the file.

A new magic needs its Struct, its two functions and its row in LAYOUTS. All code that checks, scans, decodes and judges
entries uses that table; the loops (logd/protocol/loops) have the common magics written out for speed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from attrs import frozen

from logd.protocol.batch_layout import (
    BATCH,
    BATCH_FIELDS_AT,
    BATCH_HEAD_BYTES,
    batch_checked_to,
    batch_own_size,
    check_batch_head,
)
from logd.protocol.checksums import CHECKSUMS, CRC32, CRC32C, Checksums, crc32
from logd.protocol.headers import Headers, decode_headers, encode_headers

Buffer = bytes | memoryview

PLAIN = 0
WRAPPER = 1
KEYED = 2
GAP = 0x7F

#: The beginning of the payload of a mark (see logd/log/epochs/mark.py): gzip's head with an extra field of 12 bytes, of
#: which the subfield LE has 8.
MARK_HEAD = bytes.fromhex("1f8b08040000000000ff") + b"\x0c\x00LE\x08\x00"
#: N.
LENGTH = Struct(">i")
LENGTH_BYTES = LENGTH.size
MAGIC_AT = LENGTH_BYTES
#: N, magic, and the checksum of the magics 0, 2 and 7f.
HEAD = Struct(">iBI")
HEAD_BYTES = HEAD.size
#: The least size of an entry or gap.
LEAST_BYTES = HEAD_BYTES
#: N, magic, attributes and checksum of magic 1.
WRAPPER_HEAD = Struct(">iBBI")
WRAPPER_HEAD_BYTES = WRAPPER_HEAD.size
ATTRIBUTES_AT = 5
CODEC_MASK = 3
#: N, magic, checksum, attributes, timestamp and key length of magic 2, and the last three of them.
KEYED_HEAD = Struct(">iBIBqi")
KEYED_FIELDS = Struct(">Bqi")
KEY_AT = KEYED_HEAD.size
_KEYED_BEHIND = HEAD_BYTES - LENGTH_BYTES
_pack_head = HEAD.pack
_pack_fields = KEYED_FIELDS.pack
#: The bit in the attributes of magic 2 for a message without a value.
NO_VALUE = 0x08

#: The place of the checksum in HEAD.
_CHECKSUM_AT = MAGIC_AT + 1
CHECKSUM = Struct(">I")
TIME = Struct(">q")

#: Payload, key, timestamp and headers of a message, as logd.protocol.message.Message has them.
MessageFields = tuple[bytes | None, bytes | None, int | None, Headers]


@frozen
class Layout:
    """The layout of the entries of one magic. Indexes count from the first byte of N."""

    magic: int
    #: The least N. An entry of that length contains its whole head.
    minimum: int
    head_bytes: int
    #: The place of the checksum, an uint32, and of the first byte that it covers.
    checksum_at: int
    checked_from: int
    #: Returns the fields of an entry with a valid checksum and codec 0; raises ValueError for an invalid field.
    fields: Callable[[bytes, int, int], MessageFields]
    #: Raises as ``fields`` does, without making the fields; None if any bytes are valid fields.
    check_fields: Callable[[Buffer, int, int], object] | None = None
    #: Returns the index behind the last byte that the checksum covers; None if it covers all up to the entry's end.
    checked_to: Callable[[Buffer, int], int] | None = None
    #: Raises ValueError if the head of the entry, whose N is not below the minimum, is not sound. None if nothing but
    #: the checksum tells.
    check_head: Callable[[Buffer, int, Checksums], object] | None = None
    #: Returns the size of an entry by other bytes of its head than N. None if only the checksum, which then covers
    #: everything up to the end, could tell.
    own_size: Callable[[Buffer, int], int] | None = None
    #: The name of the checksum in Checksums.
    checksum: str = CRC32
    #: True: the entry contains no message. Producers may not send such entries, and readers skip them.
    is_gap: bool = False
    #: The index of the newest time of the messages, an int64 in ms (-1: none); 0 if there is no such field.
    time_at: int = 0

    def holds(self, data: Buffer, at: int, stop: int, checksums: Checksums = CHECKSUMS) -> bool:
        """Return whether the complete entry in ``[at, stop)`` has a valid length and checksum."""
        if stop - at - LENGTH_BYTES < self.minimum:
            return False
        if self.check_head is not None:
            try:
                self.check_head(data, at, checksums)
            except ValueError:
                return False
        covered = data[at + self.checked_from : stop if self.checked_to is None else self.checked_to(data, at)]
        (stored,) = CHECKSUM.unpack_from(data, at + self.checksum_at)
        return checksums[self.checksum](covered) == int(stored)

    def time(self, data: Buffer, at: int) -> int:
        """Return the newest time in the entry at ``at``, in ms; -1 if it has none."""
        return int(TIME.unpack_from(data, at + self.time_at)[0]) if self.time_at else -1


class EntryHead(NamedTuple):
    """The head of one entry."""

    layout: Layout
    #: Bytes of the entry, its length prefix included.
    size: int
    #: The stored checksum.
    checksum: int
    #: In ms, -1 for none.
    timestamp: int
    #: The index behind the last byte that the checksum covers, counted from the first of N.
    checked_to: int

    @property
    def magic(self) -> int:
        """The magic."""
        return self.layout.magic

    @property
    def is_gap(self) -> bool:
        """Return whether the entry holds no message."""
        return self.layout.is_gap

    @property
    def checked_from(self) -> int:
        """The index of the first byte that the checksum covers, counted from the first of N."""
        return self.layout.checked_from


def head_at(data: Buffer, at: int = 0, checksums: Checksums = CHECKSUMS) -> EntryHead | None:
    """Return the head of the entry at ``at``, None if the data end inside it. The checksum is not verified.

    Raises ValueError for an invalid length or magic, and for a head that a checksum of its own shows to be damaged.
    """
    left = len(data) - at
    if left < LEAST_BYTES:
        return None
    length, magic, _ = HEAD.unpack_from(data, at)
    layout = LAYOUTS.get(magic)
    if layout is None or length < layout.minimum:
        raise ValueError(f"no entry has length {length} and magic {magic}")
    if left < layout.head_bytes:
        return None
    if layout.check_head is not None:
        layout.check_head(data, at, checksums)
    size = LENGTH_BYTES + length
    (checksum,) = CHECKSUM.unpack_from(data, at + layout.checksum_at)
    checked_to = size if layout.checked_to is None else layout.checked_to(data, at) - at
    return EntryHead(layout, size, checksum, layout.time(data, at), checked_to)


def size_at(data: Buffer, at: int = 0) -> int:
    """Return the unverified size of the entry at ``at`` by its length; 0 for an invalid length or magic.

    Also 0 if fewer than five bytes are left.
    """
    if len(data) - at <= MAGIC_AT:
        return 0
    (length,) = LENGTH.unpack_from(data, at)
    layout = LAYOUTS.get(data[at + MAGIC_AT])
    return 0 if layout is None or length < layout.minimum else LENGTH_BYTES + int(length)


def size_by_length(data: Buffer, at: int = 0) -> int:
    """Return the size of the entry at ``at`` by N alone; 0 if N is too small or incomplete."""
    if len(data) - at < LENGTH_BYTES:
        return 0
    size = LENGTH_BYTES + int(LENGTH.unpack_from(data, at)[0])
    return size if size >= LEAST_BYTES else 0


def codec_at(data: Buffer, at: int = 0) -> int:
    """Return the number of the codec of the wrapper at ``at``; 0 for any other entry."""
    return data[at + ATTRIBUTES_AT] & CODEC_MASK if data[at + MAGIC_AT] == WRAPPER else 0


def holds_several(data: Buffer, at: int = 0) -> bool:
    """Return whether the entry at ``at`` is a batch or a wrapper, so that its messages lie inside."""
    return data[at + MAGIC_AT] == BATCH or codec_at(data, at) != 0


def head_pattern() -> re.Pattern[bytes]:
    """Return a pattern that matches, without consuming bytes, where an entry below 16 MiB or any gap may begin."""
    magics = b"".join(re.escape(bytes((layout.magic,))) for layout in LAYOUTS.values() if not layout.is_gap)
    shorter = LEAST_BYTES - LENGTH_BYTES - 1
    return re.compile(
        rb"(?=(?!\0\0\0[\0-%b])\0[\0-\xff]{3}[%b]|[\0-\x7f][\0-\xff]{3}%b)"
        % (re.escape(bytes((shorter,))), magics, re.escape(bytes((GAP,)))),
        re.DOTALL,
    )


# Magic 0 and 1: a payload, which is a compressed set where the attributes of magic 1 name a codec


def _plain_fields(data: bytes, at: int, stop: int) -> MessageFields:
    return data[at + HEAD_BYTES : stop], None, None, ()


def _wrapper_fields(data: bytes, at: int, stop: int) -> MessageFields:
    return data[at + WRAPPER_HEAD_BYTES : stop], None, None, ()


def is_mark_payload(payload: Buffer) -> bool:
    """Return whether a wrapper's payload begins as that of the mark of a leader epoch, which only brokers write."""
    return bytes(payload[: len(MARK_HEAD)]) == MARK_HEAD


def encode_wrapped(codec: int, payload: bytes) -> bytes:
    """Return a magic-1 entry."""
    length = len(payload) + WRAPPER_HEAD_BYTES - LENGTH_BYTES
    return WRAPPER_HEAD.pack(length, WRAPPER, codec, crc32(payload)) + payload


# Magic 2


def encode_keyed(payload: bytes | None, key: bytes | None, timestamp: int | None, headers: Headers) -> bytes:
    """Return a magic-2 entry: a message with a key, a time or headers, or a tombstone."""
    body = b"".join(
        (
            _pack_fields(
                NO_VALUE if payload is None else 0,
                -1 if timestamp is None else timestamp,
                -1 if key is None else len(key),
            ),
            key or b"",
            encode_headers(headers),
            payload or b"",
        )
    )
    return _pack_head(len(body) + _KEYED_BEHIND, KEYED, crc32(body)) + body


def keyed_parts(data: Buffer, at: int, stop: int) -> tuple[Headers, int]:
    """Return the headers of a magic-2 entry and the index of its value; raise ValueError for an invalid field."""
    attributes, timestamp, key_length = KEYED_FIELDS.unpack_from(data, at + LEAST_BYTES)
    if attributes not in (0, NO_VALUE) or timestamp < -1:
        raise ValueError(f"attributes {attributes:#04x} or timestamp {timestamp} is out of range")
    value_at = at + KEY_AT
    if key_length > 0:
        value_at += key_length
    elif key_length < -1:
        raise ValueError(f"key length {key_length} is out of range")
    if value_at >= stop:
        raise ValueError(f"key length {key_length} is out of range")
    if data[value_at]:
        headers, value_at = decode_headers(data, value_at, stop)
    else:
        headers = ()
        value_at += 1
    if attributes and value_at != stop:
        raise ValueError("a tombstone has a value")
    return headers, value_at


def _keyed_fields(data: bytes, at: int, stop: int) -> MessageFields:
    headers, value_at = keyed_parts(data, at, stop)
    attributes, timestamp, key_length = KEYED_FIELDS.unpack_from(data, at + LEAST_BYTES)
    key_at = at + KEY_AT
    return (
        None if attributes else data[value_at:stop],
        None if key_length < 0 else data[key_at : key_at + key_length],
        None if timestamp < 0 else timestamp,
        headers,
    )


# Batches


def _batch_fields(data: bytes, at: int, stop: int) -> MessageFields:
    raise ValueError("a batch holds messages; it is not one itself")


# Gaps


def _gap_fields(data: bytes, at: int, stop: int) -> MessageFields:
    raise ValueError("a gap holds no message")


def encode_gap(total_bytes: int) -> bytes:
    """Return the first nine bytes of a gap that fills ``total_bytes``, its own length prefix included."""
    if not LEAST_BYTES <= total_bytes < 1 << 31:
        raise ValueError(f"a gap fills {LEAST_BYTES} bytes to 2 GiB, not {total_bytes}")
    length = total_bytes - LENGTH_BYTES
    return HEAD.pack(length, GAP, crc32(LENGTH.pack(length)))


def gap_length(data: Buffer, at: int = 0) -> int:
    """Return the size of the gap at ``at``, 0 if none begins there (or fewer than nine bytes are left)."""
    if len(data) - at < LEAST_BYTES:
        return 0
    length, magic, crc = HEAD.unpack_from(data, at)
    if magic != GAP or length < LEAST_BYTES - LENGTH_BYTES or crc != crc32(data[at : at + LENGTH_BYTES]):
        return 0
    return int(length) + LENGTH_BYTES


def gap_own_size(data: Buffer, at: int = 0) -> int:
    """Return the one size of a gap, its length prefix included, for which its checksum matches; it may be invalid.

    The CRC of four bytes can be inverted by undoing the 32 steps of the shift register.
    """
    register = int(HEAD.unpack_from(data, at)[2]) ^ 0xFFFFFFFF
    for _ in range(32):
        register = ((register ^ _POLYNOMIAL) << 1) | 1 if register >> 31 else register << 1
    length = (register ^ 0xFFFFFFFF).to_bytes(LENGTH_BYTES, "little")
    return int(LENGTH.unpack(length)[0]) + LENGTH_BYTES


def _gap_checked_to(data: Buffer, at: int) -> int:
    return at + LENGTH_BYTES


_POLYNOMIAL = 0xEDB88320  # of CRC-32

_TABLE = (
    # magic, least N, bytes of the head, place of the checksum and of the first byte that it covers, fields; the rest
    Layout(PLAIN, 5, HEAD_BYTES, _CHECKSUM_AT, HEAD_BYTES, _plain_fields),
    Layout(WRAPPER, 6, WRAPPER_HEAD_BYTES, ATTRIBUTES_AT + 1, WRAPPER_HEAD_BYTES, _wrapper_fields),
    Layout(KEYED, 19, KEY_AT, _CHECKSUM_AT, HEAD_BYTES, _keyed_fields, keyed_parts, time_at=HEAD_BYTES + 1),
    Layout(
        BATCH,
        BATCH_HEAD_BYTES - LENGTH_BYTES,
        BATCH_HEAD_BYTES,
        BATCH_FIELDS_AT - CHECKSUM.size,
        BATCH_FIELDS_AT,
        _batch_fields,
        checked_to=batch_checked_to,
        check_head=check_batch_head,
        own_size=batch_own_size,
        checksum=CRC32C,
        time_at=BATCH_FIELDS_AT + 2 + 4 + 8,
    ),
    Layout(
        GAP, 5, HEAD_BYTES, _CHECKSUM_AT, 0, _gap_fields, checked_to=_gap_checked_to, own_size=gap_own_size, is_gap=True
    ),
)
#: Every layout, by its magic.
LAYOUTS = {layout.magic: layout for layout in _TABLE}
#: No head is longer.
MOST_HEAD_BYTES = max(layout.head_bytes for layout in LAYOUTS.values())
