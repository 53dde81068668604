"""Message sets to columns: lists of values, keys, times, headers and places, with every checksum verified.

The loops for plain and for keyed entries stand beside that of ``decode_set`` and make no object for a message but its
parts; all other entries (wrappers, gaps, tombstones, what is wrong) go through ``decode_set``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import repeat
from struct import Struct

from attrs import define, field

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.checksums import crc32
from logd.protocol.headers import Headers, decode_headers
from logd.protocol.loops import decode_set
from logd.protocol.openwrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES, OpenWrapper

_HEAD = Struct(">iBI")  # N, magic, and the crc of magic 0
_HEAD_BYTES = _HEAD.size
_PLAIN_MINIMUM = 5
_KEYED_HEAD = Struct(">iBIBqi")  # N, magic 2, crc, attributes, timestamp, key length
_KEYED_MAGIC = 2
_KEYED_MINIMUM = 19
#: Entries that are not plain are decoded so many at a time before the plain loop looks again.
_OTHERS_AT_A_TIME = 1000


@define(eq=False)
class Rows:
    """Messages of one partition, column by column. ``ids`` has each message's position, ``nexts`` the one behind it.

    ``keys``, ``times`` and ``headers`` are shorter than ``values`` or empty where the last, or all, messages have none.
    """

    values: list[bytes | None] = field(factory=list)
    ids: list[int] = field(factory=list)
    nexts: list[int] = field(factory=list)
    keys: list[bytes | None] = field(factory=list)
    times: list[int | None] = field(factory=list)
    headers: list[Headers] = field(factory=list)
    #: About how many bytes the messages take.
    size: int = 0

    def __len__(self) -> int:
        return len(self.values)

    def pad(self) -> None:
        """Make keys, times and headers as long as values, each where any message has one."""
        count = len(self.values)
        if self.keys:
            self.keys += [None] * (count - len(self.keys))
        if self.times:
            self.times += [None] * (count - len(self.times))
        if self.headers:
            self.headers += [()] * (count - len(self.headers))

    def add_parts(
        self,
        keys: Sequence[bytes | None] | None,
        times: Sequence[int | None] | None,
        headers: Sequence[Headers] | None,
    ) -> None:
        """Append these to their columns, before the values that they belong to; None where none of those has any."""
        count = len(self.values)
        if keys is not None:
            self.keys += [None] * (count - len(self.keys))
            self.keys += keys
        if times is not None:
            self.times += [None] * (count - len(self.times))
            self.times += times
        if headers is not None:
            self.headers += [()] * (count - len(self.headers))
            self.headers += headers

    def keep(self, start: int, end: int) -> None:
        """Leave out messages that do not belong to the range [start, end)."""
        self.pad()
        chosen = [
            number
            for number, (here, following) in enumerate(zip(self.ids, self.nexts, strict=True))
            if (following > start or here >= start) and here < end and following <= end
        ]
        if len(chosen) < len(self.values):
            for name in ("values", "ids", "nexts", "keys", "times", "headers"):
                column = getattr(self, name)
                if column:
                    setattr(self, name, [column[number] for number in chosen])


@define(eq=False)
class Cursor:
    """Where decoding is in one piece of log: ``data[at]`` is log position ``position``, an entry boundary.

    ``needed`` is the whole size of the entry that the data's end cuts off (0: none, or not known yet); ``error`` says
    what is wrong with the entry at hand.
    """

    data: bytes
    position: int
    at: int = 0
    gaps: int = 0
    gap_bytes: int = 0
    needed: int = 0
    error: CorruptMessage | WrapperTooLarge | None = None
    ended: bool = False
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED
    max_decompressed_messages: int = DEFAULT_MAX_DECOMPRESSED_MESSAGES
    #: The wrapper at hand, as long as messages of it are left.
    _wrapper: OpenWrapper | None = None

    def fill(self, rows: Rows, limit: int, limit_bytes: int = sys.maxsize) -> None:
        """Append messages to ``rows`` until it has ``limit``, or about ``limit_bytes`` in them.

        ``ended`` is set where the data is used up, cut off (``needed``) or wrong (``error``).
        """
        while self.at < len(self.data) and not self.ended:
            if len(rows) >= limit or rows.size >= limit_bytes:
                return
            if not self._plain(rows, limit, limit_bytes) and not self._keyed(rows, limit, limit_bytes):
                self._others(rows, min(limit - len(rows), _OTHERS_AT_A_TIME), limit_bytes - rows.size)
        self.ended = True

    def _plain(self, rows: Rows, limit: int, limit_bytes: int) -> bool:
        """Take plain entries (magic 0) up to the first of another kind; return whether there was any."""
        data = self.data
        at = self.at
        end = len(data)
        last = min(end - _HEAD_BYTES, at + limit_bytes - rows.size)
        unpack = _HEAD.unpack_from
        crc = crc32
        values = rows.values
        append = values.append
        stops: list[int] = []
        note = stops.append
        for _ in repeat(None, limit - len(values)):
            if at > last:
                break
            length, magic, checksum = unpack(data, at)
            stop = at + 4 + length
            if magic or stop > end or length < _PLAIN_MINIMUM:
                break
            value = data[at + 9 : stop]
            if crc(value) != checksum:
                break
            append(value)
            note(stop)
            at = stop
        return self._advance(rows, at, stops)

    def _keyed(self, rows: Rows, limit: int, limit_bytes: int) -> bool:
        """Take entries with a key, a time or headers (magic 2) up to the first that is another, or not sound."""
        data = self.data
        at = self.at
        end = len(data)
        last = min(end - _KEYED_HEAD.size - 1, at + limit_bytes - rows.size)
        unpack = _KEYED_HEAD.unpack_from
        crc = crc32
        values: list[bytes | None] = []
        keys: list[bytes | None] = []
        times: list[int | None] = []
        headers: list[Headers] = []
        stops: list[int] = []
        has_key = has_time = has_headers = False
        # Headers are mostly those of the message before; their bytes say where they end, so equal ones mean the same.
        same, known_bytes = b"\0", 1
        known: Headers = ()
        for _ in repeat(None, limit - len(rows)):
            if at > last:
                break
            length, magic, checksum, attributes, timestamp, key_length = unpack(data, at)
            stop = at + 4 + length
            if magic != _KEYED_MAGIC or length < _KEYED_MINIMUM or stop > end or attributes:
                break
            key_at = at + _KEYED_HEAD.size
            value_at = key_at + key_length if key_length > 0 else key_at
            if timestamp < -1 or key_length < -1 or value_at >= stop or crc(data[at + 9 : stop]) != checksum:
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
        if stops:
            rows.add_parts(keys if has_key else None, times if has_time else None, headers if has_headers else None)
            rows.values += values
        return self._advance(rows, at, stops)

    def _advance(self, rows: Rows, at: int, stops: list[int]) -> bool:
        """Note the places of entries that end at the indexes ``stops``; return whether there was any."""
        if not stops:
            return False
        base = self.position - self.at
        if base:
            stops = [base + stop for stop in stops]
        rows.ids.append(self.position)
        rows.ids += stops[:-1]
        rows.nexts += stops
        rows.size += at - self.at
        self.at = at
        self.position = base + at
        return True

    def _others(self, rows: Rows, limit: int, limit_bytes: int) -> None:
        """Take up to ``limit`` messages of about ``limit_bytes``, of any entries; a wrapper may take several calls."""
        decoded = decode_set(
            self.data,
            self.position,
            begin=self.at,
            limit=limit,
            limit_bytes=limit_bytes,
            max_decompressed=self.max_decompressed,
            max_decompressed_messages=self.max_decompressed_messages,
            wrapper=self._wrapper,
        )
        taken = decoded.consumed - self.at
        self.at = decoded.consumed
        rows.size += taken
        self._wrapper = decoded.wrapper
        self.position = decoded.position if decoded.wrapper is None else self.position + taken
        self.gaps += decoded.gaps
        self.gap_bytes += decoded.gap_bytes
        self.needed = decoded.needed
        self.error = decoded.error
        if decoded.messages:
            values, keys, times, headers, ids, nexts, _, _ = zip(*decoded.messages, strict=True)
            rows.add_parts(
                keys if any(key is not None for key in keys) else None,
                times if any(time is not None for time in times) else None,
                headers if any(headers) else None,
            )
            inside = sum(len(value) for value in values if value is not None)
            # Of what was compressed what counts is what it was decompressed to, with some room for the objects.
            rows.size += max(inside + len(values) * _HEAD_BYTES - taken, 0)
            rows.values += values
            rows.ids += ids
            rows.nexts += nexts
        # Nothing taken and nothing wrong: what is left is the beginning of an entry.
        nothing = not (decoded.messages or decoded.gaps or taken) and decoded.wrapper is None
        if decoded.error is not None or decoded.needed or nothing:
            self.ended = True
