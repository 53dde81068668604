"""The decoding of message sets into columns, without an object for each message."""

from __future__ import annotations

import sys
from itertools import repeat

from logd.protocol.checksums import crc32
from logd.protocol.entry import (
    HEAD,
    HEAD_BYTES,
    KEY_AT,
    KEYED,
    KEYED_HEAD,
    LAYOUTS,
    LEAST_BYTES,
    LENGTH_BYTES,
    MAGIC_AT,
    PLAIN,
)
from logd.protocol.headers import Headers, decode_headers
from logd.protocol.loops.results import Columns

_unpack_head = HEAD.unpack_from
_unpack_keyed = KEYED_HEAD.unpack_from
_PLAIN_MINIMUM = LAYOUTS[PLAIN].minimum
_KEYED_MINIMUM = LAYOUTS[KEYED].minimum

new = tuple.__new__  # half the time of the class where runs of one kind are short


def columns_of_set(data: bytes, begin: int = 0, limit: int = sys.maxsize, limit_bytes: int = sys.maxsize) -> Columns:
    """Return the sound entries of one kind, plain or keyed, from ``begin`` up to the first other entry.

    Returns at most ``limit`` entries, of about ``limit_bytes``. There are none if the entry at ``begin`` is of another
    kind, damaged or cut off; decode_set handles those.
    """
    magic = data[begin + MAGIC_AT] if len(data) - begin >= LEAST_BYTES else None
    if magic == PLAIN:
        return _plain(data, begin, limit, limit_bytes)
    if magic == KEYED:
        return _keyed(data, begin, limit, limit_bytes)
    return Columns([], None, None, None, [])


def _plain(data: bytes, at: int, limit: int, limit_bytes: int) -> Columns:
    prefix, payload_at, minimum = LENGTH_BYTES, HEAD_BYTES, _PLAIN_MINIMUM
    end = len(data)
    last = min(end - LEAST_BYTES, at + limit_bytes)
    unpack = _unpack_head
    crc = crc32
    values: list[bytes | None] = []
    append = values.append
    stops: list[int] = []
    note = stops.append
    for _ in repeat(None, limit):
        if at > last:
            break
        length, magic, checksum = unpack(data, at)
        stop = at + prefix + length
        if magic or stop > end or length < minimum:
            break
        value = data[at + payload_at : stop]
        if crc(value) != checksum:
            break
        append(value)
        note(stop)
        at = stop
    return new(Columns, (values, None, None, None, stops))


def _keyed(data: bytes, at: int, limit: int, limit_bytes: int) -> Columns:
    end = len(data)
    last = min(end - KEY_AT - 1, at + limit_bytes)
    unpack = _unpack_keyed
    crc = crc32
    values: list[bytes | None] = []
    keys: list[bytes | None] = []
    times: list[int | None] = []
    headers: list[Headers] = []
    stops: list[int] = []
    has_key = has_time = has_headers = False
    # Headers mostly equal those of the previous message. Their encoding contains their length, so equal bytes suffice.
    same, known_bytes = b"\0", 1
    known: Headers = ()
    for _ in repeat(None, limit):
        if at > last:
            break
        length, magic, checksum, attributes, timestamp, key_length = unpack(data, at)
        stop = at + LENGTH_BYTES + length
        if magic != KEYED or length < _KEYED_MINIMUM or stop > end or attributes:
            break
        key_at = at + KEY_AT
        value_at = key_at + key_length if key_length > 0 else key_at
        if timestamp < -1 or key_length < -1 or value_at >= stop or crc(data[at + HEAD_BYTES : stop]) != checksum:
            break
        if data.startswith(same, value_at, stop):
            value_at += known_bytes
        else:
            try:
                known, after = decode_headers(data, value_at, stop)
            except ValueError:
                break
            same = data[value_at:after]
            known_bytes = after - value_at
            value_at = after
        if known:
            has_headers = True
        headers.append(known)
        if key_length < 0:
            keys.append(None)
        else:
            keys.append(data[key_at : key_at + key_length])
            has_key = True
        if timestamp < 0:
            times.append(None)
        else:
            times.append(timestamp)
            has_time = True
        values.append(data[value_at:stop])
        stops.append(stop)
        at = stop
    return new(
        Columns,
        (values, keys if has_key else None, times if has_time else None, headers if has_headers else None, stops),
    )
