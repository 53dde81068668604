"""Decodes message sets into columns: values, keys, times, headers and positions, with checksums verified.

Plain and keyed entries and batches are read as columns in flat buffers (``loops.columns_of_set``), without an object
for each message. All other entries (wrappers, gaps, tombstones, damaged ones) go through ``loops.decode_set``.
"""

from __future__ import annotations

import sys
from itertools import repeat

from attrs import define, field

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol import loops
from logd.protocol.entry import LEAST_BYTES
from logd.protocol.flat_columns import first_number, last_number, numbers_of
from logd.protocol.headers import Headers
from logd.protocol.message import Message
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES

#: Entries that have no columns are decoded so many at a time before the columns are tried again.
_OTHERS_AT_A_TIME = 1000


@define(eq=False)
class Rows:
    """Messages of one partition, column by column, in parts that follow each other.

    The lists of objects are made at each access.
    """

    parts: list[loops.Columns] = field(factory=list)
    #: Approximate bytes of the messages.
    size: int = 0
    _count: int = 0

    def __len__(self) -> int:
        return self._count

    def append(self, part: loops.Columns) -> None:
        """Append messages; their size is the caller's to add."""
        if part.messages:
            self.parts.append(part)
            self._count += part.messages

    @property
    def values(self) -> list[bytes | None]:
        """The values, None for a tombstone. There are values in all parts."""
        return [each for part in self.parts if part.values is not None for each in part.values.items()]

    @property
    def ids(self) -> list[int]:
        """The first position of each message."""
        return [each for part in self.parts for each in numbers_of(part.ids)]

    @property
    def nexts(self) -> list[int]:
        """The position behind each message."""
        return [each for part in self.parts for each in numbers_of(part.nexts)]

    @property
    def headers(self) -> list[Headers]:
        """The headers, () for a message without any."""
        return [each for part in self.parts for each in part.headers or [()] * part.messages]

    @property
    def messages(self) -> list[Message]:
        """The messages, without topic and partition."""
        return [message for part in self.parts for message in messages_of(part)]

    def lie_within(self, start: int, end: int) -> bool:
        """Return whether all messages, at least one, belong to the range [start, end)."""
        first, last = self.parts[0], self.parts[-1]
        return first_number(first.ids) >= start and first_number(first.nexts) > start and last_number(last.nexts) <= end

    def keep(self, start: int, end: int) -> None:
        """Remove messages outside the range [start, end)."""
        parts = self.parts
        self.parts, self._count = [], 0
        for part in parts:
            self.append(
                loops.Columns.of_messages(
                    [each for each in messages_of(part) if _belongs(each, start, end)],
                    include_values=part.values is not None,
                )
            )


def messages_of(part: loops.Columns) -> list[Message]:
    """Return the messages of columns, each with its place."""
    count = part.messages
    fields = zip(
        [None] * count if part.values is None else part.values.items(),
        [None] * count if part.keys is None else part.keys.items(),
        [None] * count if part.times is None else [None if time < 0 else time for time in numbers_of(part.times)],
        part.headers or [()] * count,
        numbers_of(part.ids),
        numbers_of(part.nexts),
        repeat(None),
        repeat(-1),
        strict=False,
    )
    return [Message._make(each) for each in fields]


def _belongs(message: Message, start: int, end: int) -> bool:
    here, following = message.id, message.next_position
    return (following > start or here >= start) and here < end and following <= end


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
    #: True when values, and when keys, are wanted.
    include_values: bool = True
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
            if not self._columns(rows, left, left_bytes):
                self._others(rows, min(left, _OTHERS_AT_A_TIME), left_bytes)
        self.ended = True

    def _columns(self, rows: Rows, limit: int, limit_bytes: int) -> bool:
        """Take messages that need no object, up to the first entry of another kind; return True if any."""
        opened = self._opened
        if opened is not None and not isinstance(opened, loops.OpenBatch):
            return False  # the entry is a wrapper
        found = loops.columns_of_set(
            self.data,
            self.position,
            begin=self.at,
            limit=limit,
            limit_bytes=limit_bytes,
            max_decompressed=self.max_decompressed,
            max_decompressed_messages=self.max_decompressed_messages,
            opened=opened,
            include_values=self.include_values,
        )
        self.position += found.consumed - self.at
        self.at = found.consumed
        self._opened = found.opened
        rows.append(found)
        rows.size += found.size
        return found.messages > 0

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
            rows.append(loops.Columns.of_messages(decoded.messages, include_values=self.include_values))
            inside = sum(len(message.payload) for message in decoded.messages if message.payload is not None)
            # Compressed messages count by their decompressed size, with some room for the objects.
            rows.size += max(inside + len(decoded.messages) * LEAST_BYTES - taken, 0)
        # Nothing taken and no error: the rest is the beginning of an entry.
        nothing = not (decoded.messages or decoded.gaps or taken) and decoded.opened is None
        if decoded.error is not None or decoded.needed or nothing:
            self.ended = True
