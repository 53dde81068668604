"""Message sets to columns: lists of values, keys, times, headers and places, with every checksum verified.

The loop for plain entries stands beside that of ``decode_set`` and makes no object for a message but its value; all
other entries go through ``decode_set``.
"""

from __future__ import annotations

import sys
from struct import Struct

from attrs import define, field

from logd.errors import CorruptMessage
from logd.protocol.checksums import crc32
from logd.protocol.headers import Headers
from logd.protocol.loops import DEFAULT_MAX_DECOMPRESSED, decode_set

_HEAD = Struct(">iBI")  # N, magic, and the crc of magic 0
_HEAD_BYTES = _HEAD.size
_PLAIN_MINIMUM = 5
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
    bytes: int = 0

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
    error: CorruptMessage | None = None
    ended: bool = False
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED

    def fill(self, rows: Rows, limit: int, limit_bytes: int = sys.maxsize) -> None:
        """Append messages to ``rows`` until it has ``limit``, or about ``limit_bytes`` in them.

        A compressed wrapper is taken whole, so there may be more. ``ended`` is set where the data is used up, cut off
        (``needed``) or wrong (``error``).
        """
        while self.at < len(self.data) and not self.ended:
            if len(rows) >= limit or rows.bytes >= limit_bytes:
                return
            if not self._plain(rows, limit, limit_bytes):
                self._others(rows, min(limit - len(rows), _OTHERS_AT_A_TIME))
        self.ended = True

    def _plain(self, rows: Rows, limit: int, limit_bytes: int) -> bool:
        """Take plain entries (magic 0) up to the first of another kind; return whether there was any."""
        data = self.data
        at = self.at
        end = len(data)
        last = min(end - _HEAD_BYTES, at + limit_bytes - rows.bytes)
        unpack = _HEAD.unpack_from
        crc = crc32
        values = rows.values
        append = values.append
        stops: list[int] = []
        note = stops.append
        room = limit - len(values)
        while at <= last and room:
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
            room -= 1
        if not stops:
            return False
        base = self.position - self.at
        if base:
            stops = [base + stop for stop in stops]
        rows.ids.append(self.position)
        rows.ids += stops[:-1]
        rows.nexts += stops
        rows.bytes += at - self.at
        self.at = at
        self.position = base + at
        return True

    def _others(self, rows: Rows, limit: int) -> None:
        """Take up to ``limit`` entries of any kind."""
        decoded = decode_set(
            self.data, self.position, begin=self.at, limit=limit, max_decompressed=self.max_decompressed
        )
        rows.bytes += decoded.consumed - self.at
        self.at = decoded.consumed
        self.position = decoded.position
        self.gaps += decoded.gaps
        self.gap_bytes += decoded.gap_bytes
        self.needed = decoded.needed
        self.error = decoded.error
        if decoded.messages:
            rows.pad()
            values, keys, times, headers, ids, nexts, _, _ = zip(*decoded.messages, strict=True)
            before = len(rows)
            if any(key is not None for key in keys) or rows.keys:
                rows.keys += [None] * (before - len(rows.keys)) + list(keys)
            if any(time is not None for time in times) or rows.times:
                rows.times += [None] * (before - len(rows.times)) + list(times)
            if any(headers) or rows.headers:
                rows.headers += [()] * (before - len(rows.headers)) + list(headers)
            if nexts[-1] - ids[0] < 2 * len(ids) * _HEAD_BYTES:
                # Many messages in little room: what counts is what they were decompressed to.
                rows.bytes += sum(len(value) for value in values if value is not None)
            rows.values += values
            rows.ids += ids
            rows.nexts += nexts
        # Nothing taken and nothing wrong: what is left is the beginning of an entry.
        if decoded.error is not None or decoded.needed or (not decoded.messages and not decoded.gaps):
            self.ended = True
