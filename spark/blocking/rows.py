"""Decodes message sets into columns: lists of values, keys, times, headers and positions, with checksums verified.

Plain and keyed entries and batches are read as columns (``loops.columns_of_set``, ``loops.columns_of_batches``),
without an object for each message. All other entries (wrappers, gaps, tombstones, damaged ones) go through
``loops.decode_set``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from attrs import define, field

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol import loops
from logd.protocol.entry import LEAST_BYTES
from logd.protocol.headers import Headers
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES

#: Entries that are not plain are decoded so many at a time before the plain loop looks again.
_OTHERS_AT_A_TIME = 1000
#: Whether batches are read as columns. The compiled loops have none for batches yet, and rows made of the messages of
#: their decode_set take 420 ns each; in Python the same takes 2000, and the columns take 1300.
_BATCHES_AS_COLUMNS = loops.IMPLEMENTATION == "python"


@define(eq=False)
class Rows:
    """Messages of one partition, column by column: ``ids`` has the ids, ``nexts`` the next positions.

    ``keys``, ``times`` and ``headers`` are shorter than ``values`` or empty where the last, or all, messages have none.
    """

    values: list[bytes | None] = field(factory=list)
    ids: list[int] = field(factory=list)
    nexts: list[int] = field(factory=list)
    keys: list[bytes | None] = field(factory=list)
    times: list[int | None] = field(factory=list)
    headers: list[Headers] = field(factory=list)
    #: Approximate bytes of the messages.
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
        """Append to the columns, before the values are appended; None for a column without any value."""
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
        """Remove messages outside the range [start, end)."""
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
    """The state of decoding one piece of log: ``data[at]`` is log position ``position``, an entry boundary.

    ``needed`` is the whole size of the entry that the data's end cuts off (0: none, or not known yet); ``error`` is the
    error of the current entry.
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
    #: The current wrapper or batch, while messages of it are left.
    _opened: loops.OpenEntry | None = None

    def fill(self, rows: Rows, limit: int, limit_bytes: int = sys.maxsize) -> None:
        """Append messages to ``rows`` until it has ``limit``, or about ``limit_bytes`` in them.

        ``ended`` is set where the data is used up, cut off (``needed``) or wrong (``error``).
        """
        while self.at < len(self.data) and not self.ended:
            if len(rows) >= limit or rows.size >= limit_bytes:
                return
            left, left_bytes = limit - len(rows), limit_bytes - rows.size
            if not (self._columns(rows, left, left_bytes) or self._batches(rows, left, left_bytes)):
                self._others(rows, min(left, _OTHERS_AT_A_TIME), left_bytes)
        self.ended = True

    def _columns(self, rows: Rows, limit: int, limit_bytes: int) -> bool:
        """Take sound entries of one kind that need no object, up to the first other one; return True if any."""
        values, keys, times, headers, stops = loops.columns_of_set(self.data, self.at, limit, limit_bytes)
        if not stops:
            return False
        if keys is not None or times is not None or headers is not None:
            rows.add_parts(keys, times, headers)
        rows.values += values
        at = stops[-1]
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

    def _batches(self, rows: Rows, limit: int, limit_bytes: int) -> bool:
        """Take messages of batches, up to the first entry that is none or has to be reported; return True if any."""
        opened = self._opened
        if not _BATCHES_AS_COLUMNS or (opened is not None and not isinstance(opened, loops.OpenBatch)):
            return False  # the entry may be a wrapper
        found = loops.columns_of_batches(
            self.data,
            self.position,
            begin=self.at,
            limit=limit,
            limit_bytes=limit_bytes,
            max_decompressed=self.max_decompressed,
            max_decompressed_messages=self.max_decompressed_messages,
            opened=opened,
        )
        self.position += found.consumed - self.at
        self.at = found.consumed
        self._opened = found.opened
        if not found.values:
            return False
        rows.add_parts(found.keys, found.times, found.headers)
        rows.values += found.values
        rows.ids += found.ids
        rows.nexts += found.nexts
        rows.size += found.size
        return True

    def _others(self, rows: Rows, limit: int, limit_bytes: int) -> None:
        """Take up to ``limit`` messages of about ``limit_bytes``, of any entries; a wrapper may take several calls."""
        decoded = loops.decode_set(
            self.data,
            self.position,
            begin=self.at,
            limit=limit,
            limit_bytes=limit_bytes,
            max_decompressed=self.max_decompressed,
            max_decompressed_messages=self.max_decompressed_messages,
            opened=self._opened,
        )
        taken = decoded.consumed - self.at
        self.at = decoded.consumed
        rows.size += taken
        self._opened = decoded.opened
        self.position = decoded.position if decoded.opened is None else self.position + taken
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
            # Compressed messages count by their decompressed size, with some room for the objects.
            rows.size += max(inside + len(values) * LEAST_BYTES - taken, 0)
            rows.values += values
            rows.ids += ids
            rows.nexts += nexts
        # Nothing taken and no error: the rest is the beginning of an entry.
        nothing = not (decoded.messages or decoded.gaps or taken) and decoded.opened is None
        if decoded.error is not None or decoded.needed or nothing:
            self.ended = True
