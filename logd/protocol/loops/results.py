"""The results of the loops, the same for every implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.flat_columns import BinaryColumn, binary_column, number_column
from logd.protocol.headers import Headers
from logd.protocol.loops.openbatch import OpenBatch
from logd.protocol.loops.openwrapper import OpenWrapper
from logd.protocol.message import Message

#: An entry with several messages while they are decoded.
OpenEntry = OpenWrapper | OpenBatch


class Scanned(NamedTuple):
    """The sound entries that one call of scan_set found."""

    #: The index behind the last entry, and the number of entries.
    consumed: int
    entries: int
    #: The highest timestamp up to that index, -1 for none.
    newest: int
    #: The problem of the entry at ``consumed``. Empty if that entry is cut off by the data's end, or was not checked.
    problem: str
    #: The index of the last entry, -1 if there is none.
    last: int
    gaps: int
    gap_bytes: int
    #: Boundaries: the indexes of some entries, each with the highest timestamp before it.
    boundaries: list[tuple[int, int]]


class Checked(NamedTuple):
    """The findings of the check of a set that a producer sent."""

    #: The number of messages. A wrapper counts as one, since it is not opened.
    messages: int
    #: The newest time in ms, -1 for none.
    newest: int
    #: True when the set holds batches, and when one has a leader epoch other than -1.
    has_batches: bool = False
    has_epochs: bool = False

    def with_more(self, more: Checked) -> Checked:
        """Return the findings of this part of a set and of the part behind it."""
        return Checked(
            self.messages + more.messages,
            max(self.newest, more.newest),
            self.has_batches or more.has_batches,
            self.has_epochs or more.has_epochs,
        )


class MessageSummary(NamedTuple):
    """The common properties of messages."""

    #: The headers, if all have the same; else None.
    headers: Headers | None
    #: The least time in ms, -1 if one message has none; and the greatest, -1 if none has one.
    least_time: int
    greatest_time: int
    #: Bytes of keys and payloads.
    bytes: int


class JoinedFrames(NamedTuple):
    """The sets of several requests as one set."""

    #: The index behind the last frame.
    stop: int
    message_set: bytes
    #: The bytes of each request's set.
    sizes: list[int]


class Decoded(NamedTuple):
    """The messages that one call of decode_set made."""

    #: The messages in order, each with its place; those before an error are included.
    messages: list[Message]
    #: The log position after the last message. If the bytes end inside a gap, the gap's end.
    position: int
    #: The index in the data after the last entry, where the next call begins.
    consumed: int
    #: The number of gaps skipped, and their size in bytes.
    gaps: int
    gap_bytes: int
    #: The error of the entry at ``position``, which is invalid or cannot be opened by this reader; None without one.
    error: CorruptMessage | WrapperTooLarge | None
    #: The unverified end of that entry by its own length if it lies within the data, otherwise -1.
    error_end: int
    #: The size of the entry that is cut off by the data's end, its prefix included; 0 if there is none or its length is
    #: not known.
    needed: int
    #: The unfinished wrapper or batch at ``consumed``, to be passed to the next call. ``position`` may lie inside it.
    opened: OpenEntry | None = None


class Columns(NamedTuple):
    """The messages of one call of columns_of_set, as columns of equal length; None for a field that no message has."""

    #: The number of messages.
    messages: int
    #: Both None if values were not asked for.
    values: BinaryColumn | None
    keys: BinaryColumn | None
    #: In ms, -1 for none: int64, in the machine's byte order, as are ids and nexts.
    times: bytes | None
    headers: list[Headers] | None
    #: The first position of each message, and the position behind it.
    ids: bytes
    nexts: bytes
    #: The index in the data where the next call begins: that of the unfinished batch, or behind the last entry.
    consumed: int
    #: Bytes of the messages' entries, of those in batches the records, decompressed.
    size: int
    #: The unfinished batch at ``consumed``, to be passed to the next call, of this function or of decode_set.
    opened: OpenBatch | None

    @classmethod
    def of_messages(cls, messages: Sequence[Message], include_values: bool = True) -> Columns:
        """Return messages with their places as columns; ``consumed``, ``size`` and ``opened`` are empty."""
        values, keys, times, headers, ids, nexts, _, _ = zip(*messages, strict=True) if messages else ((),) * 8
        return cls(
            len(messages),
            binary_column(values) if include_values else None,
            binary_column(keys) if include_values and any(key is not None for key in keys) else None,
            number_column(-1 if time is None else time for time in times)
            if any(time is not None for time in times)
            else None,
            list(headers) if any(headers) else None,
            number_column(ids),
            number_column(nexts),
            0,
            0,
            None,
        )
