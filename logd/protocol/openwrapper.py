"""A wrapper being read: decompressed and counted within bounds, checked whole, then made into messages in slices.

A few hundred bytes can become a million messages. Their bytes are bounded before they exist, their number before an
object is made for any of them, and no call does more work than its limit says.
"""

from __future__ import annotations

from itertools import repeat
from struct import Struct

from attrs import define

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.checksums import crc32
from logd.protocol.headers import Headers
from logd.protocol.keyed import KEY_AT, KEYED_HEAD, KEYED_HEAD_AT, keyed_fields
from logd.protocol.message import Message
from logd.protocol.wrapper import CODEC_MASK, WRAPPER_MAGIC, open_wrapper

_HEAD = Struct(">iBI")  # N, magic, and the crc of magic 0 and 2
_WRAPPER_HEAD = Struct(">iBBI")
_KEYED_MAGIC = 2
_KEYED_MINIMUM = 19
#: Entries are checked, or passed over, so many times as fast as messages are made of them.
_CHECKS_FOR_A_MESSAGE = 4

#: The most that one wrapper may become unless a caller says otherwise, in bytes (four frames of the default size) and
#: in messages.
DEFAULT_MAX_DECOMPRESSED = 64 << 20
DEFAULT_MAX_DECOMPRESSED_MESSAGES = 1_000_000


@define(eq=False)
class OpenWrapper:
    """A wrapper at [start, end) of a log and the set inside, which is checked whole before any message is made."""

    start: int
    end: int
    inner: bytes
    max_messages: int
    #: Messages counted and checked so far, and the index behind them.
    count: int = 0
    _checked_to: int = 0
    #: Messages taken or passed over so far, and the index behind them.
    _taken: int = 0
    _at: int = 0

    @property
    def done(self) -> bool:
        """Whether every message was taken."""
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
        """Return up to ``limit`` further messages, of about ``limit_bytes`` in all, and the bytes that they took.

        There may be none although more will come, since each call checks and passes over a bounded number, too.
        Messages that end at or before position ``start_at`` are passed over.

        Raises CorruptMessage where anything inside is no sound message, WrapperTooLarge where there are too many.
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
        """The number of messages that end at or before ``start_at``."""
        if start_at <= self.start or not self.count:
            return 0
        if start_at >= self.end:
            return self.count
        if self.count > self.end - self.start:
            return self.count - 1
        return max(self.count - (self.end - start_at), 0)

    def _check(self, most: int, most_bytes: int) -> None:
        """Check the next entries: whole, of a known magic, sums that hold, and no wrapper."""
        inner = self.inner
        at = self._checked_to
        end = len(inner)
        last = end - _HEAD.size
        until = min(last, at + most_bytes)
        left = self.max_messages - self.count
        unpack = _HEAD.unpack_from
        crc = crc32
        count = 0
        wrong = ""
        for _ in repeat(None, min(most, left)):
            if at > until:
                break
            length, magic, checksum = unpack(inner, at)
            stop = at + 4 + length
            if stop > end:
                wrong = "a message set that is cut short"
                break
            if not magic:
                if length < 5 or crc(inner[at + 9 : stop]) != checksum:
                    wrong = "a message whose length or checksum does not hold"
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
        unpack = _HEAD.unpack_from
        for _ in repeat(None, count):
            at += 4 + unpack(inner, at)[0]
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
        unpack = _HEAD.unpack_from
        number = self._taken
        following = self.end - self.count + number
        last = at + limit_bytes
        for _ in repeat(None, min(limit, self.count - number)):
            if at >= last:
                break
            length, magic, _ = unpack(inner, at)
            stop = at + 4 + length
            following += 1
            behind = following if not many or following == self.end else here
            if not magic:
                append(new(cls, (inner[at + 9 : stop], None, None, (), here, behind, topic, partition)))
            else:
                append(new(cls, (*_parts(inner, at, stop, magic), here, behind, topic, partition)))
            here = behind
            at = stop
        self._at = at
        self._taken = number + len(messages)
        return messages, at - begin


def open_entry(
    attributes: int, payload: bytes, start: int, end: int, max_decompressed: int, max_messages: int
) -> OpenWrapper:
    """Return the wrapper at [start, end) decompressed, none of its messages checked yet.

    Raises CorruptMessage for a payload that is not of its codec, WrapperTooLarge above ``max_decompressed`` bytes.
    """
    try:
        inner = open_wrapper(attributes, payload, max_decompressed)
    except WrapperTooLarge as error:
        raise WrapperTooLarge(error.setting, error.limit, start, end) from None
    return OpenWrapper(start, end, inner, max_messages)


def _problem(inner: bytes, at: int, stop: int, magic: int) -> str:
    """Say what is wrong with an entry that is not plain; empty when it is sound."""
    if magic == _KEYED_MAGIC:
        if stop - at - 4 < _KEYED_MINIMUM or crc32(inner[at + 9 : stop]) != _HEAD.unpack_from(inner, at)[2]:
            return "a message whose length or checksum does not hold"
        try:
            keyed_fields(inner, at, stop)
        except ValueError as error:
            return f"a message that is wrong: {error}"
        return ""
    if magic != WRAPPER_MAGIC:
        return f"an entry whose magic {magic} is not known, or does not hold"
    if stop - at < _WRAPPER_HEAD.size:
        return "a message whose length or checksum does not hold"
    _, _, attributes, checksum = _WRAPPER_HEAD.unpack_from(inner, at)
    if crc32(inner[at + 10 : stop]) != checksum:
        return "a message whose length or checksum does not hold"
    return "a wrapper inside a wrapper" if attributes & CODEC_MASK else ""


def _parts(inner: bytes, at: int, stop: int, magic: int) -> tuple[bytes | None, bytes | None, int | None, Headers]:
    """Return payload, key, time and headers of an entry that is not plain and was checked."""
    if magic == WRAPPER_MAGIC:
        return inner[at + 10 : stop], None, None, ()
    attributes, timestamp, key_length = KEYED_HEAD.unpack_from(inner, at + KEYED_HEAD_AT)
    headers, value_at = keyed_fields(inner, at, stop)
    key_at = at + KEY_AT
    return (
        None if attributes else inner[value_at:stop],
        None if key_length < 0 else inner[key_at : key_at + key_length],
        None if timestamp < 0 else timestamp,
        headers,
    )
