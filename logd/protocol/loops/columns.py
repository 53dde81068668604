"""The decoding of message sets into columns, without an object for each message."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import repeat
from typing import TypeVar

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.batch_layout import BATCH, BATCH_HEAD_BYTES
from logd.protocol.checksums import crc32
from logd.protocol.entry import (
    HEAD,
    HEAD_BYTES,
    KEY_AT,
    KEYED,
    KEYED_HEAD,
    LAYOUTS,
    LEAST_BYTES,
    LENGTH,
    LENGTH_BYTES,
    MAGIC_AT,
    PLAIN,
)
from logd.protocol.headers import Headers, decode_headers
from logd.protocol.loops.openbatch import OpenBatch, open_batch
from logd.protocol.loops.results import BatchColumns, Columns
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES

T = TypeVar("T")

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


def columns_of_batches(
    data: bytes,
    position: int = 0,
    *,
    begin: int = 0,
    limit: int = sys.maxsize,
    limit_bytes: int = DEFAULT_MAX_DECOMPRESSED,
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
    max_decompressed_messages: int = DEFAULT_MAX_DECOMPRESSED_MESSAGES,
    opened: OpenBatch | None = None,
) -> BatchColumns:
    """Return the messages of the batches from index ``begin`` on, which is log position ``position``, as columns.

    They are the messages that decode_set makes of the same bytes, compressed or not. At most ``limit`` are returned, of
    about ``limit_bytes`` decompressed. A batch may take several calls: pass what the previous result has as ``opened``,
    and the position of the batch's start.

    Ends before any other entry and before what decode_set has to report: a batch that is damaged, cut off or above a
    bound, or a wrong record. Where the result has no messages, decode_set continues at ``consumed`` with ``opened``.
    """
    values: list[bytes | None] = []
    keys: list[bytes | None] | None = None
    times: list[int | None] | None = None
    headers: list[Headers] | None = None
    ids: list[int] = []
    nexts: list[int] = []
    at, size = begin, 0
    base = position - begin
    while len(values) < limit and size < limit_bytes:
        stop = _end_of_batch(data, at)
        if not stop:
            break
        try:
            if opened is None:
                if not LAYOUTS[BATCH].holds(data, at, stop):
                    break
                opened = open_batch(data, at, base + at, base + stop, max_decompressed, max_decompressed_messages)
            part = opened.columns(limit - len(values), limit_bytes - size)
        except (CorruptMessage, WrapperTooLarge):
            break
        count, more = len(values), len(part.values)
        keys = _joined(keys, part.keys, None, count, more)
        times = _joined(times, part.times, None, count, more)
        headers = _joined(headers, part.headers, (), count, more)
        values += part.values
        ids += part.ids
        nexts += part.nexts
        size += part.size
        if not opened.done:
            break
        opened = None
        at = stop
    return BatchColumns(values, keys, times, headers, ids, nexts, at, size, opened)


def _end_of_batch(data: bytes, at: int) -> int:
    """Return the index behind the batch at ``at``; 0 if there is another entry, or only the beginning of a batch."""
    if len(data) - at < BATCH_HEAD_BYTES or data[at + MAGIC_AT] != BATCH:
        return 0
    stop = at + LENGTH_BYTES + int(LENGTH.unpack_from(data, at)[0])
    return stop if at + BATCH_HEAD_BYTES <= stop <= len(data) else 0


def _joined(column: list[T] | None, part: Sequence[T] | None, nothing: T, count: int, more: int) -> list[T] | None:
    """Return a column of ``count`` messages and its ``part`` of ``more``; None if neither has any value."""
    if part is None:
        return None if column is None else column + [nothing] * more
    if column is None:
        column = [nothing] * count
    column += part
    return column
