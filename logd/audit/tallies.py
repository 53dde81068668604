"""Tallies: how many messages of each window and origin are in a batch or in a message set.

A message in a batch belongs to the window of the batch's max_time, in every tier; any other message to the window of
its own time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from logd.audit.event import ALL_ORIGINS, NO_ORIGIN, SERVER_HEADER, is_name
from logd.audit.windows import window_of
from logd.protocol import loops
from logd.protocol.batch_layout import BATCH, batch_head
from logd.protocol.entry import KEYED, LAYOUTS, MAGIC_AT, codec_at
from logd.protocol.headers import Headers
from logd.protocol.message import Message
from logd.protocol.slices import (
    DECODED_BYTES,
    DECODED_MESSAGES,
    DEFAULT_BOUNDS,
    Bounds,
    Steps,
    decode_in_slices,
    result_of,
)

Buffer = bytes | memoryview

_time_of_head = itemgetter(2)
_end_of = attrgetter("next_position")


class WindowTally(NamedTuple):
    """Messages of one window and origin."""

    #: In ms, inside the window; -1 for messages without a time.
    time: int
    origin: str
    messages: int
    #: Bytes of keys and values; None if the messages were not opened.
    bytes: int | None


def origin_of(headers: Headers) -> str:
    """Return the server that the headers name; NO_ORIGIN for none, or for a name that no event can have."""
    for name, value in headers:
        if name == SERVER_HEADER:
            origin = "" if value is None else value.decode(errors="replace")
            return origin if is_name(origin) and origin != ALL_ORIGINS else NO_ORIGIN
    return NO_ORIGIN


class BatchPlace(NamedTuple):
    """The positions of a batch in a partition's log, up to its end, and its max_time in ms."""

    start: int
    end: int
    time: int


def batches_in(data: Buffer, position: int) -> list[BatchPlace]:
    """Return the places of the batches among entries, the first of which begins at ``position``."""
    return [
        BatchPlace(position + at, position + at + size, time)
        for at, size, time in loops.heads_of_set(data)
        if data[at + MAGIC_AT] == BATCH
    ]


def tally_read(messages: Sequence[Message], batches: Sequence[BatchPlace], width: int) -> list[WindowTally]:
    """Return the tallies of messages with positions, which were read from entries among which are these batches."""
    if not batches:
        return tally_messages(messages, width)
    found: list[WindowTally] = []
    done = 0
    for start, end, time in batches:
        first = bisect_right(messages, start, done, key=_end_of)
        last = bisect_right(messages, end, first, key=_end_of)
        found += tally_messages(messages[done:first], width)
        found += tally_messages(messages[first:last], width, time)
        done = last
    found += tally_messages(messages[done:], width)
    return found


def tally_messages(messages: Sequence[Message], width: int, batch_time: int | None = None) -> list[WindowTally]:
    """Return the tallies of messages, which ``batch_time`` says to be those of one batch with that max_time."""
    if not messages:
        return []
    headers, least, greatest, size = loops.summarize_messages(messages)
    if headers is not None:
        time = batch_time
        if time is None and least >= 0 and window_of(least, width) == window_of(greatest, width):
            time = least
        if time is not None:  # the common case: one server and one window
            return [WindowTally(time, origin_of(headers), len(messages), size)]
    return _tally_each(messages, width, batch_time)


def tally_heads(data: Buffer, width: int) -> list[WindowTally]:
    """Return the tallies of a sound message set by the heads of its entries: all origins together, without bytes.

    Only wrappers are opened, since the times are in their messages.
    """
    found = WindowSums(width)
    result_of(sum_in_steps(data, found))
    return found.take()


def tally_few(data: Buffer, width: int, most: int, bounds: Bounds = DEFAULT_BOUNDS) -> Steps[list[WindowTally] | None]:
    """Return what ``tally_heads`` returns, in steps; None for more than ``most`` windows."""
    found = WindowSums(width)
    for holds in sum_in_steps(data, found, bounds):
        if len(found) > most:
            return None
        yield holds
    return found.take() if len(found) <= most else None


class WindowSums:
    """The numbers of messages of all origins together, by window. Messages without a time are in no window."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._found: dict[int, list[int]] = {}

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self._found)

    def add(self, time: int, messages: int) -> None:
        """Add messages of the window in which ``time`` lies, -1 for none."""
        if time >= 0:
            self._found.setdefault(window_of(time, self.width), [time, 0])[1] += messages

    def take(self) -> list[WindowTally]:
        """Return the sums, and begin anew."""
        found, self._found = self._found, {}
        return [WindowTally(time, ALL_ORIGINS, messages, None) for time, messages in found.values()]


def sum_in_steps(data: Buffer, found: WindowSums, bounds: Bounds = DEFAULT_BOUNDS) -> Steps[None]:
    """Add the messages of a sound message set in steps, by the heads of its entries, between which sums may be taken.

    A wrapper of a few hundred bytes may hold a million messages. Those of one that is damaged inside, or would become
    more than ``bounds``, are not counted.
    """
    at = 0
    while at < len(data):
        stop = loops.slice_end(data, at, DECODED_MESSAGES, DECODED_BYTES)
        yield from _sum_slice(data[at:stop], found, bounds)
        at = stop
        if at < len(data):
            yield False


def _sum_slice(data: Buffer, found: WindowSums, bounds: Bounds) -> Steps[None]:
    heads = loops.heads_of_set(data)
    times = list(map(_time_of_head, heads))
    low, high = min(times, default=-1), max(times, default=-1)
    in_one = low >= 0 and window_of(low, found.width) == window_of(high, found.width)
    if in_one and {data[at + MAGIC_AT] for at, _, _ in heads} == {KEYED}:  # a common case, in a third of the time
        found.add(low, len(heads))
        return
    for at, size, time in heads:
        magic = data[at + MAGIC_AT]
        if magic == BATCH:
            found.add(time, batch_head(data, at).messages)
        elif codec_at(data, at):
            yield True
            for decoded in decode_in_slices(bytes(data[at : at + size]), bounds=bounds):
                for tally in tally_messages(decoded.messages, found.width):
                    found.add(tally.time, tally.messages)
                yield decoded.opened is not None
        elif not LAYOUTS[magic].is_gap:
            found.add(time, 1)


def tally_set(data: bytes, width: int) -> list[WindowTally]:
    """Return the tallies of a sound message set, whose batches and wrappers are opened."""
    found: list[WindowTally] = []
    for at, size, time in loops.heads_of_set(data):
        if not LAYOUTS[data[at + MAGIC_AT]].is_gap:
            messages = loops.decode_set(data[at : at + size]).messages
            found += tally_messages(messages, width, time if data[at + MAGIC_AT] == BATCH else None)
    return found


def _tally_each(messages: Sequence[Message], width: int, batch_time: int | None) -> list[WindowTally]:
    found: dict[tuple[int, str], list[int]] = {}
    for payload, key, own_time, headers, *_ in messages:
        time = batch_time if batch_time is not None else -1 if own_time is None else own_time
        if time >= 0:
            count = found.setdefault((window_of(time, width), origin_of(headers)), [time, 0, 0])
            count[1] += 1
            count[2] += len(payload or b"") + len(key or b"")
    return [WindowTally(time, origin, count, size) for (_, origin), (time, count, size) in found.items()]
