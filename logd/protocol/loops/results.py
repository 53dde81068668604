"""The results of the loops, the same for every implementation."""

from __future__ import annotations

from typing import NamedTuple

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.headers import Headers
from logd.protocol.loops.openwrapper import OpenWrapper
from logd.protocol.message import Message


class Scanned(NamedTuple):
    """The sound entries that one call of scan_set found."""

    #: The index behind the last of them, and how many there are.
    consumed: int
    entries: int
    #: The highest timestamp up to there, -1 for none.
    newest: int
    #: Why the entry at ``consumed`` is not sound. Empty where it is cut off by the end, or was not looked at.
    problem: str
    #: The index of the last of them, -1 where there is none.
    last: int
    gaps: int
    gap_bytes: int
    #: Indexes where some of them begin, each with the highest timestamp before it.
    boundaries: list[tuple[int, int]]


class Decoded(NamedTuple):
    """The messages that one call of decode_set made."""

    #: In order, each with its place. Those before an error are here too.
    messages: list[Message]
    #: The log position after the last message used. Where the bytes end inside a gap, it is the gap's end.
    position: int
    #: The index in the data after the last entry used: begin the next call there.
    consumed: int
    #: How many gaps were skipped, and the bytes that they fill.
    gaps: int
    gap_bytes: int
    #: What is wrong with the entry at ``position``, or keeps this reader from opening it; None if nothing does.
    error: CorruptMessage | WrapperTooLarge | None
    #: Where that entry would end by its own length if it lies within the data, else -1. Nothing vouches for it.
    error_end: int
    #: The whole size of the entry that is cut off by the end of the data, its prefix included; 0 if there is none, or
    #: its length is not known.
    needed: int
    #: The wrapper at ``consumed`` that is not done with: hand it to the next call. ``position`` may be inside of it.
    wrapper: OpenWrapper | None = None


class Columns(NamedTuple):
    """The messages that one call of columns_of_set took, as columns of equal length; None where no message has one."""

    values: list[bytes | None]
    keys: list[bytes | None] | None
    times: list[int | None] | None
    headers: list[Headers] | None
    #: The index in the data behind each message. Each begins where the one before it ends.
    stops: list[int]
