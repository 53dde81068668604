"""A batch while it is read: decompressed within bounds, then decoded in slices, into columns or messages.

logd.protocol.loops.batches draws a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

from attrs import define

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.batch_layout import APPEND_TIME, BATCH_HEAD_BYTES, BatchHead, batch_head
from logd.protocol.codecs import BATCH_CODEC_NAMES, decompress
from logd.protocol.headers import Headers
from logd.protocol.loops.batches import SMALL
from logd.protocol.message import Message
from logd.protocol.varint import decode_zigzag

_MAX_TIME = (1 << 63) - 1


class RecordColumns(NamedTuple):
    """Messages of a batch as columns of equal length; None for a field that no message has."""

    values: list[bytes | None]
    keys: list[bytes | None] | None
    times: list[int | None] | None
    headers: list[Headers] | None
    #: The first position of each message, and the position behind it.
    ids: list[int]
    nexts: list[int]
    #: The size of the messages' records in bytes, decompressed.
    size: int


@define(eq=False)
class OpenBatch:
    """A batch at [start, end) of a log while its records are decoded in slices. Its checksum was verified."""

    start: int
    end: int
    #: The records, decompressed.
    records: bytes
    count: int
    last_delta: int
    base_time: int
    #: The time of all messages where the batch was stamped when it was appended, else None.
    append_time: int | None
    #: The number of messages taken so far, and the index behind them.
    _taken: int = 0
    _at: int = 0
    #: The delta of the last message taken.
    _delta: int = -1

    @property
    def done(self) -> bool:
        """Return whether every message was taken."""
        return self._taken >= self.count

    @property
    def position(self) -> int:
        """The position behind the messages taken so far."""
        if self._delta < 0:
            return self.start
        return self.end - self.last_delta + self._delta

    def take(
        self, limit: int, limit_bytes: int, start_at: int, topic: str | None, partition: int
    ) -> tuple[list[Message], int]:
        """Return up to ``limit`` further messages, of about ``limit_bytes`` in all, and their size in bytes.

        Messages before position ``start_at`` are included. Raises as ``columns``.
        """
        values, keys, times, headers, ids, nexts, size = self.columns(limit, limit_bytes)
        columns = (values, keys or repeat(None), times or repeat(None), headers or repeat(()), ids, nexts)
        # Without a step in Python for each message.
        fields = zip(*columns, repeat(topic), repeat(partition), strict=False)
        return list(map(tuple.__new__, repeat(Message), fields)), size

    def columns(self, limit: int, limit_bytes: int) -> RecordColumns:
        """Return up to ``limit`` further messages, of about ``limit_bytes`` in all, as columns.

        Raises CorruptMessage for bytes that are not a record, after the messages before them were returned.
        """
        data, begin = self.records, self._at
        at = done = begin
        end = len(data)
        last = at + limit_bytes
        delta, last_delta = self._delta, self.last_delta
        base, fixed = self.base_time, self.append_time
        values: list[bytes | None] = []
        append = values.append
        # These columns are made at the first message that needs them.
        keys: list[bytes | None] | None = None
        times: list[int | None] | None = None
        headers: list[Headers] | None = None
        numbers: list[int] | None = None
        # For records without key and headers: the bytes between number and value, by the number of bytes that follow
        # the number. They were the same in the last record of that size, and comparing is quicker than reading them.
        between: dict[int, bytes] = {}
        starts_with = data.startswith
        small = SMALL
        most_small = min(len(small) - 1, last_delta)
        problem = ""
        left = self.count - self._taken
        final = left - 1
        for count in range(min(limit, left)):
            if at >= last:
                break
            try:
                # The common case of each varint, one byte or two, is written out: a call takes as long as a record.
                byte = data[at]
                at += 1
                if byte < 0x80:
                    size = byte >> 1 ^ -(byte & 1)
                else:
                    more = data[at]
                    if more < 0x80:
                        at += 1
                        size = (byte & 0x7F | more << 7) >> 1 ^ -(byte & 1)
                    else:
                        size, at = decode_zigzag(data, at - 1)
                stop = at + size
                time = data[at + 1]  # behind the attributes, of which none has a meaning
                at += 2
                if time:
                    if time < 0x80:
                        time = time >> 1 ^ -(time & 1)
                    else:
                        more = data[at]
                        if more < 0x80:
                            at += 1
                            time = (time & 0x7F | more << 7) >> 1 ^ -(time & 1)
                        else:
                            time, at = decode_zigzag(data, at - 1)
                number = delta + 1
                # The last record, behind which nothing may stand, is left to the checks below; so is the last message
                # by the head's count, behind which there may be more records.
                if number <= most_small and stop < end and count != final:
                    encoded = small[number]
                    usual = between.get(stop - at - len(encoded))
                    if usual is not None and starts_with(encoded + usual, at) and not data[stop - 1]:
                        if times is not None or (time and fixed is None):
                            if times is None:
                                times = [base if base >= 0 else None] * count
                            time += base
                            if time > _MAX_TIME:
                                problem = f"a record of the time {time}"
                                break
                            times.append(time if time >= 0 else None)
                        if keys is not None:
                            keys.append(None)
                        if headers is not None:
                            headers.append(())
                        if numbers is not None:
                            numbers.append(number)
                        append(data[at + len(encoded) + len(usual) : stop - 1])
                        at = done = stop
                        delta = number
                        continue
                byte = data[at]
                at += 1
                if byte < 0x80:
                    number = byte >> 1 ^ -(byte & 1)
                else:
                    more = data[at]
                    if more < 0x80:
                        at += 1
                        number = (byte & 0x7F | more << 7) >> 1 ^ -(byte & 1)
                    else:
                        number, at = decode_zigzag(data, at - 1)
                key_at = at
                byte = data[at]
                at += 1
                if byte == 1:
                    key = None
                else:
                    if byte < 0x80:
                        size = byte >> 1 ^ -(byte & 1)
                    else:
                        size, at = decode_zigzag(data, at - 1)
                    if size < 0:
                        key = None
                        if size < -1:
                            problem = f"a key of {size} bytes"
                            break
                    else:
                        key = data[at : at + size]
                        at += size
                byte = data[at]
                at += 1
                if byte < 0x80:
                    size = byte >> 1 ^ -(byte & 1)
                else:
                    more = data[at]
                    if more < 0x80:
                        at += 1
                        size = (byte & 0x7F | more << 7) >> 1 ^ -(byte & 1)
                    else:
                        size, at = decode_zigzag(data, at - 1)
                if size < 0:
                    value = None
                    if size < -1:
                        problem = f"a value of {size} bytes"
                        break
                else:
                    value_at = at
                    at += size
                    value = data[value_at:at]
                if data[at]:
                    pairs, at = _headers(data, at, stop)
                else:
                    pairs = ()
                    at += 1
                    if key is None and value is not None:
                        between[stop - key_at] = data[key_at:value_at]
            except IndexError:
                problem = "a record that is cut short"
                break
            except ValueError as error:
                problem = str(error)
                break
            if at != stop or stop > end:
                problem = "a record whose lengths do not add up"
                break
            if not delta < number <= last_delta:
                problem = f"a record with the number {number} behind {delta}"
                break
            if count == final and at != end:
                problem = f"{end - at} bytes behind its last record"
                break
            if times is None and time and fixed is None:
                times = [base if base >= 0 else None] * count
            if times is not None:
                time += base
                if time > _MAX_TIME:
                    problem = f"a record of the time {time}"
                    break
                times.append(time if time >= 0 else None)
            if key is not None and keys is None:
                keys = [None] * count
            if keys is not None:
                keys.append(key)
            if pairs and headers is None:
                headers = [()] * count
            if headers is not None:
                headers.append(pairs)
            if numbers is None and number != delta + 1:
                numbers = list(range(self._delta + 1, delta + 1))
            if numbers is not None:
                numbers.append(number)
            append(value)
            delta = number
            done = at
        if problem and not values:
            raise CorruptMessage(f"the batch holds {problem} (message {self._taken + 1} of {self.count})", self.start)
        if times is None:
            time = base if fixed is None else fixed
            times = [time] * len(values) if time >= 0 else None
        ids, nexts = self._positions(numbers or range(self._delta + 1, delta + 1))
        self._at = done
        self._taken += len(values)
        self._delta = delta
        return RecordColumns(values, keys, times, headers, ids, nexts, done - begin)

    def _positions(self, numbers: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the first position of each message by its number, and the position behind each."""
        # A message's positions begin where those of its predecessor in the set as produced ended. So where compaction
        # has removed messages, the next id is not the position behind the previous message.
        behind = self.end - self.last_delta
        if isinstance(numbers, range):
            nexts = list(range(behind + numbers.start, behind + numbers.stop))
        else:
            nexts = [behind + number for number in numbers]
        if not nexts:
            return [], []
        first = nexts[0] - 1 if numbers[0] else self.start
        if isinstance(numbers, range):
            return [first, *nexts[:-1]], nexts
        return [first, *[position - 1 for position in nexts[1:]]], nexts


def _headers(data: bytes, at: int, stop: int) -> tuple[Headers, int]:
    """Return the headers of a record and the index behind them; raise ValueError or IndexError if they do not fit."""
    count, at = decode_zigzag(data, at)
    if not 0 <= count * 2 <= stop - at:  # a header takes at least two bytes: never loop over an impossible count
        raise ValueError(f"{count} headers in {stop - at} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, at = decode_zigzag(data, at)
        if not 0 <= size <= stop - at:
            raise ValueError(f"a header whose name has {size} bytes")
        name = str(data[at : at + size], "utf-8")  # UnicodeDecodeError is a ValueError
        size, at = decode_zigzag(data, at + size)
        value = None
        if size >= 0:
            if size > stop - at:
                raise ValueError("a header whose value is longer than its record")
            value = data[at : at + size]
            at += size
        elif size < -1:
            raise ValueError(f"a header whose value has {size} bytes")
        headers.append((name, value))
    return tuple(headers), at


def open_batch(data: bytes, at: int, start: int, end: int, max_decompressed: int, max_messages: int) -> OpenBatch:
    """Return the batch at index ``at``, which is at [start, end) of its log, decompressed; its checksums were verified.

    Raises CorruptMessage for records that the codec cannot decompress, or for an impossible number of messages;
    WrapperTooLarge above ``max_decompressed`` bytes or ``max_messages`` messages.
    """
    head = batch_head(data, at)
    if head.messages > max_messages:
        raise WrapperTooLarge("max_decompressed_messages", max_messages, start, end)
    if not 0 < head.messages <= head.last_delta + 1 <= end - start:
        raise CorruptMessage(
            f"a batch of {head.messages} messages, the last with the number {head.last_delta}, in {end - start} bytes",
            start,
        )
    return OpenBatch(
        start,
        end,
        _open_records(data, at, head, start, end, max_decompressed),
        head.messages,
        head.last_delta,
        head.base_time,
        head.max_time if head.attributes & APPEND_TIME else None,
    )


def _open_records(data: bytes, at: int, head: BatchHead, start: int, end: int, max_decompressed: int) -> bytes:
    records = data[at + BATCH_HEAD_BYTES : at + head.records_end]
    if not head.codec:
        return records
    name = BATCH_CODEC_NAMES.get(head.codec)
    if name is None:
        raise CorruptMessage(f"a batch of codec {head.codec}, which is not known", start)
    try:
        return decompress(name, records, max_decompressed)
    except WrapperTooLarge as error:
        raise WrapperTooLarge(error.setting, error.limit, start, end) from None
    except CorruptMessage as error:
        raise CorruptMessage(error.reason, start) from None
