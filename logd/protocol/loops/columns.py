"""The decoding of message sets into columns, without an object for each message."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple, TypeVar

from attrs import define, field

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
from logd.protocol.flat_columns import binary_column, number_column
from logd.protocol.headers import Headers, decode_headers
from logd.protocol.loops.openbatch import OpenBatch, open_batch
from logd.protocol.loops.results import Columns
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES

T = TypeVar("T")

#: No column gets more bytes than this, and one message of no more, so that 31 bits hold every offset.
_MOST_BYTES = (1 << 30) - 1

_unpack_head = HEAD.unpack_from
_unpack_keyed = KEYED_HEAD.unpack_from
_PLAIN_MINIMUM = LAYOUTS[PLAIN].minimum
_KEYED_MINIMUM = LAYOUTS[KEYED].minimum


class _Run(NamedTuple):
    """Entries of one kind, as columns; None for a field that none has."""

    values: list[bytes | None]
    keys: list[bytes | None] | None
    times: list[int | None] | None
    headers: list[Headers] | None
    #: The index in the data behind each message. Each message begins where the previous one ends.
    stops: list[int]


@define(eq=False)
class _ColumnLists:
    """Messages of any entries, column by column; ``keys``, ``times`` and ``headers`` may be shorter than ``values``."""

    values: list[bytes | None] = field(factory=list)
    keys: list[bytes | None] = field(factory=list)
    #: -1 for none.
    times: list[int] = field(factory=list)
    headers: list[Headers] = field(factory=list)
    ids: list[int] = field(factory=list)
    nexts: list[int] = field(factory=list)

    def add(
        self,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        times: Sequence[int | None] | None,
        headers: Sequence[Headers] | None,
    ) -> None:
        """Append to the columns; None for a column without any value. The places are appended by the caller."""
        if keys is not None:
            self._pad(self.keys, None)
            self.keys += keys
        if times is not None:
            self._pad(self.times, -1)
            self.times += [-1 if time is None else time for time in times]
        if headers is not None:
            self._pad(self.headers, ())
            self.headers += headers
        self.values += values

    def _pad(self, column: list[T], nothing: T) -> None:
        column += repeat(nothing, len(self.values) - len(column))

    def columns(self, consumed: int, size: int, opened: OpenBatch | None, include_values: bool) -> Columns:
        """Return all messages in flat buffers."""
        if self.keys:
            self._pad(self.keys, None)
        # Records may have a time each and say that there is none.
        has_times = bool(self.times) and (self.times[0] >= 0 or max(self.times) >= 0)
        if has_times:
            self._pad(self.times, -1)
        if self.headers:
            self._pad(self.headers, ())
        return Columns(
            len(self.values),
            binary_column(self.values) if include_values else None,
            binary_column(self.keys) if include_values and self.keys else None,
            number_column(self.times) if has_times else None,
            self.headers or None,
            number_column(self.ids),
            number_column(self.nexts),
            consumed,
            size,
            opened,
        )


def columns_of_set(
    data: bytes,
    position: int = 0,
    *,
    begin: int = 0,
    limit: int = sys.maxsize,
    limit_bytes: int = DEFAULT_MAX_DECOMPRESSED,
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
    max_decompressed_messages: int = DEFAULT_MAX_DECOMPRESSED_MESSAGES,
    opened: OpenBatch | None = None,
    include_values: bool = True,
) -> Columns:
    """Return the messages of plain and keyed entries and batches from ``begin`` on, as columns.

    They are the messages that decode_set makes of the same bytes, compressed or not; index ``begin`` is log position
    ``position``. At most ``limit`` are returned, of about ``limit_bytes``, those of batches decompressed, and of 1 GiB
    at most. A batch may take several calls: pass what the previous result has as ``opened``, and the position of the
    batch's start. Without ``include_values`` there are neither values nor keys.

    Ends before any other entry (a wrapper, a gap, a tombstone) and before what decode_set has to report: an entry that
    is damaged or cut off, a batch above a bound, or a wrong record. Where the result has no messages, decode_set
    continues at ``consumed`` with ``opened``.
    """
    gathered = _ColumnLists()
    count = size = 0
    at, base = begin, position - begin
    limit_bytes = min(limit_bytes, _MOST_BYTES)
    while count < limit and size < limit_bytes:
        magic = data[at + MAGIC_AT] if len(data) - at >= LEAST_BYTES else None
        if magic == BATCH:
            stop = _end_of_batch(data, at)
            if not stop or (opened is None and not LAYOUTS[BATCH].holds(data, at, stop)):
                break
            try:
                current = opened or open_batch(
                    data, at, base + at, base + stop, max_decompressed, max_decompressed_messages
                )
                if len(current.records) > _MOST_BYTES:
                    break
                opened = current
                part = opened.columns(limit - count, limit_bytes - size)
            except (CorruptMessage, WrapperTooLarge):
                break
            gathered.add(part.values, part.keys, part.times, part.headers)
            gathered.ids += part.ids
            gathered.nexts += part.nexts
            size += part.size
            if not opened.done:
                break
            opened = None
            at = stop
        elif opened is None and magic in (PLAIN, KEYED):
            run = (_plain if magic == PLAIN else _keyed)(data, at, limit - count, limit_bytes - size)
            if not run.stops:
                break
            gathered.add(*run[:4])
            nexts = [base + stop for stop in run.stops] if base else run.stops
            gathered.ids.append(base + at)
            gathered.ids += nexts[:-1]
            gathered.nexts += nexts
            size += run.stops[-1] - at
            at = run.stops[-1]
        else:
            break
        count = len(gathered.values)
    return gathered.columns(at, size, opened, include_values)


def _plain(data: bytes, at: int, limit: int, limit_bytes: int) -> _Run:
    prefix, payload_at, minimum, most = LENGTH_BYTES, HEAD_BYTES, _PLAIN_MINIMUM, _MOST_BYTES - LENGTH_BYTES
    end = len(data)
    last = min(end - LEAST_BYTES, at + limit_bytes - 1)
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
        if magic or stop > end or not minimum <= length <= most:
            break
        value = data[at + payload_at : stop]
        if crc(value) != checksum:
            break
        append(value)
        note(stop)
        at = stop
    return _Run(values, None, None, None, stops)


def _keyed(data: bytes, at: int, limit: int, limit_bytes: int) -> _Run:
    end = len(data)
    last = min(end - KEY_AT - 1, at + limit_bytes - 1)
    most = _MOST_BYTES - LENGTH_BYTES
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
        if magic != KEYED or not _KEYED_MINIMUM <= length <= most or stop > end or attributes:
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
    return _Run(values, keys if has_key else None, times if has_time else None, headers if has_headers else None, stops)


def _end_of_batch(data: bytes, at: int) -> int:
    """Return the index behind the batch at ``at``; 0 if there is another entry, or only the beginning of a batch."""
    if len(data) - at < BATCH_HEAD_BYTES or data[at + MAGIC_AT] != BATCH:
        return 0
    stop = at + LENGTH_BYTES + int(LENGTH.unpack_from(data, at)[0])
    return stop if at + BATCH_HEAD_BYTES <= stop <= len(data) else 0
