"""A wrapper while it is read: decompressed within bounds, checked as a whole, then decoded in slices.

A few hundred bytes can become a million messages. So the number of bytes is bounded before they are allocated, and the
number of messages before an object is made for any of them. No call does more work than its limit allows.
"""

from __future__ import annotations

from itertools import repeat

from attrs import define

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.batch_layout import BATCH
from logd.protocol.checksums import crc32
from logd.protocol.entry import (
    HEAD,
    HEAD_BYTES,
    KEYED,
    LAYOUTS,
    LEAST_BYTES,
    LENGTH,
    LENGTH_BYTES,
    PLAIN,
    codec_at,
    keyed_parts,
)
from logd.protocol.message import Message
from logd.protocol.wrapper import open_wrapper

#: The factor by which the check or the skipping of entries is faster than the creation of messages.
_CHECKS_FOR_A_MESSAGE = 4
_PLAIN_MINIMUM = LAYOUTS[PLAIN].minimum
_KEYED_MINIMUM = LAYOUTS[KEYED].minimum


@define(eq=False)
class OpenWrapper:
    """A wrapper at [start, end) of a log and its decompressed set, which is checked before any message is made."""

    start: int
    end: int
    inner: bytes
    max_messages: int
    #: The number of messages checked so far, and the index behind them.
    count: int = 0
    _checked_to: int = 0
    #: The number of messages taken or skipped so far, and the index behind them.
    _taken: int = 0
    _at: int = 0

    @property
    def done(self) -> bool:
        """Return whether every message was taken."""
        return self._checked_to >= len(self.inner) and self._taken >= self.count

    @property
    def position(self) -> int:
        """The position behind the messages taken so far."""
        if not self._taken:
            return self.start
        if self._taken < self.count and self.count > self.end - self.start:
            return self.start
        return self.end - self.count + self._taken

    def take(
        self, limit: int, limit_bytes: int, start_at: int, topic: str | None, partition: int
    ) -> tuple[list[Message], int]:
        """Return up to ``limit`` further messages, of about ``limit_bytes`` in all, and their size in bytes.

        The list may be empty although more will follow, since each call also checks and skips only a bounded number.
        Messages that end at or before position ``start_at`` are skipped.

        Raises CorruptMessage if anything inside is not a sound message, WrapperTooLarge for too many messages.
        """
        steps = limit * _CHECKS_FOR_A_MESSAGE
        if self._checked_to < len(self.inner):
            self._check(steps, limit_bytes * _CHECKS_FOR_A_MESSAGE)
            if self._checked_to < len(self.inner):
                return [], 0
        first = self._first(start_at)
        if self._taken < first:
            self._pass_over(min(first - self._taken, steps))
            if self._taken < first:
                return [], 0
        return self._messages(limit, limit_bytes, topic, partition)

    def _first(self, start_at: int) -> int:
        """Return the number of messages that end at or before ``start_at``."""
        if start_at <= self.start or not self.count:
            return 0
        if start_at >= self.end:
            return self.count
        if self.count > self.end - self.start:
            return self.count - 1
        return max(self.count - (self.end - start_at), 0)

    def _check(self, most: int, most_bytes: int) -> None:
        """Check that the next entries are complete, of a known magic, with valid checksums, and no wrappers."""
        inner = self.inner
        at = self._checked_to
        end = len(inner)
        last = end - LEAST_BYTES
        until = min(last, at + most_bytes)
        left = self.max_messages - self.count
        unpack = HEAD.unpack_from
        crc = crc32
        count = 0
        wrong = ""
        for _ in repeat(None, min(most, left)):
            if at > until:
                break
            length, magic, checksum = unpack(inner, at)
            stop = at + LENGTH_BYTES + length
            if stop > end:
                wrong = "a message set that is cut short"
                break
            if not magic:
                if length < _PLAIN_MINIMUM or crc(inner[at + HEAD_BYTES : stop]) != checksum:
                    wrong = "a message with a wrong length or checksum"
                    break
            elif magic == KEYED:
                if length < _KEYED_MINIMUM or crc(inner[at + HEAD_BYTES : stop]) != checksum:
                    wrong = "a message with a wrong length or checksum"
                    break
                try:
                    keyed_parts(inner, at, stop)
                except ValueError as error:
                    wrong = f"a message that is wrong: {error}"
                    break
            elif wrong := _problem(inner, at, stop, magic):
                break
            count += 1
            at = stop
        if not wrong and last < at < end:
            wrong = "a message set that is cut short"
        if wrong:
            raise CorruptMessage(f"the wrapper holds {wrong} (message {self.count + count + 1} of it)", self.start)
        self.count += count
        self._checked_to = at
        if self.count >= self.max_messages and at < end:
            raise WrapperTooLarge("max_decompressed_messages", self.max_messages, self.start, self.end)

    def _pass_over(self, count: int) -> None:
        inner, at = self.inner, self._at
        unpack = LENGTH.unpack_from
        for _ in repeat(None, count):
            at += LENGTH_BYTES + unpack(inner, at)[0]
        self._at = at
        self._taken += count

    def _messages(self, limit: int, limit_bytes: int, topic: str | None, partition: int) -> tuple[list[Message], int]:
        """Make the next messages, whose bytes were checked."""
        inner, begin = self.inner, self._at
        at = begin
        here = self.position
        many = self.count > self.end - self.start
        messages: list[Message] = []
        append = messages.append
        new = tuple.__new__
        cls = Message
        unpack = HEAD.unpack_from
        layouts = LAYOUTS
        number = self._taken
        following = self.end - self.count + number
        last = at + limit_bytes
        for _ in repeat(None, min(limit, self.count - number)):
            if at >= last:
                break
            length, magic, _ = unpack(inner, at)
            stop = at + LENGTH_BYTES + length
            following += 1
            behind = following if not many or following == self.end else here
            if not magic:
                append(new(cls, (inner[at + HEAD_BYTES : stop], None, None, (), here, behind, topic, partition)))
            else:
                append(new(cls, (*layouts[magic].fields(inner, at, stop), here, behind, topic, partition)))
            here = behind
            at = stop
        self._at = at
        self._taken = number + len(messages)
        return messages, at - begin


def open_wrapper_entry(
    attributes: int, payload: bytes, start: int, end: int, max_decompressed: int, max_messages: int
) -> OpenWrapper:
    """Return the wrapper at [start, end), decompressed; none of its messages is checked yet.

    Raises CorruptMessage for a payload that is not of its codec, WrapperTooLarge above ``max_decompressed`` bytes.
    """
    try:
        inner = open_wrapper(attributes, payload, max_decompressed)
    except WrapperTooLarge as error:
        raise WrapperTooLarge(error.setting, error.limit, start, end) from None
    return OpenWrapper(start, end, inner, max_messages)


def _problem(inner: bytes, at: int, stop: int, magic: int) -> str:
    """Return the problem of an entry that is neither plain nor keyed, empty if it is sound."""
    layout = LAYOUTS.get(magic)
    if layout is None or layout.is_gap:
        return f"an entry whose magic {magic} is not known, or does not hold"
    if magic == BATCH:
        return "a batch inside a wrapper"
    if not layout.holds(inner, at, stop):
        return "a message with a wrong length or checksum"
    if layout.check_fields is not None:
        try:
            layout.check_fields(inner, at, stop)
        except ValueError as error:
            return f"a message that is wrong: {error}"
    return "a wrapper inside a wrapper" if codec_at(inner, at) else ""
