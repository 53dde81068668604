"""The check of message sets from producers, before they are stored."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from logd.config.log import DEFAULT_BATCH_BYTES
from logd.errors import InvalidMessage, MessageTooLarge
from logd.plurals import counted
from logd.protocol.batch_layout import (
    APPEND_TIME,
    BATCH,
    BATCH_CODEC_MASK,
    NO_PRODUCER,
    BatchHead,
    batch_head,
    check_batch_head,
)
from logd.protocol.checksums import CHECKSUMS, crc32
from logd.protocol.codecs import BATCH_CODEC_NAMES, CODEC_NAMES, CODEC_NUMBERS
from logd.protocol.entry import (
    CODEC_MASK,
    HEAD,
    HEAD_BYTES,
    KEY_AT,
    KEYED,
    KEYED_FIELDS,
    LAYOUTS,
    LEAST_BYTES,
    LENGTH_BYTES,
    MAGIC_AT,
    PLAIN,
    WRAPPER,
    WRAPPER_HEAD,
    WRAPPER_HEAD_BYTES,
    Buffer,
    codec_at,
    is_mark_payload,
    keyed_parts,
)
from logd.protocol.loops.results import Checked
from logd.protocol.wrapper import may_be_produced

_unpack_head = HEAD.unpack_from
_unpack_fields = KEYED_FIELDS.unpack_from
_unpack_wrapper = WRAPPER_HEAD.unpack_from
#: Bytes of N that are not behind the checksum.
_UNCOUNTED = HEAD_BYTES - LENGTH_BYTES
_UNCOUNTED_OF_WRAPPER = WRAPPER_HEAD_BYTES - LENGTH_BYTES
_ZSTD = CODEC_NUMBERS["zstd"]
_PLAIN_MINIMUM = LAYOUTS[PLAIN].minimum
_WRAPPER_MINIMUM = LAYOUTS[WRAPPER].minimum
_KEYED_MINIMUM = LAYOUTS[KEYED].minimum


def check_set(
    data: Buffer, max_message_bytes: int, max_batch_bytes: int = DEFAULT_BATCH_BYTES, legacy: bool = False
) -> Checked:
    """Check every entry of a set that a producer sent; return what it holds.

    For a wrapper, the outer checksum and the first bytes of the compressed set are checked; of a batch its two
    checksums and its head. Neither is opened. Raises InvalidMessage for an empty set, a gap, an invalid checksum,
    length, magic, codec or field, and for left-over bytes; MessageTooLarge for an entry with more than
    ``max_message_bytes`` behind its checksum (magic 0 and 1: its payload, as in Kafka 0.7.2), and for a batch of more
    than ``max_batch_bytes``. With ``legacy``, for a topic with message.format = 0.7, also InvalidMessage for an entry
    that clients of 0.7 cannot read.
    """
    # Names used for each message are local, since the faster lookup is measurable.
    prefix, payload_at, minimum = LENGTH_BYTES, HEAD_BYTES, _PLAIN_MINIMUM
    end = len(data)
    last = end - LEAST_BYTES
    limit = max_message_bytes + _UNCOUNTED
    at = 0
    count = 0
    newest = -1
    has_batches = has_epochs = False
    unpack = _unpack_head
    crc = crc32
    while at <= last:
        length, magic, checksum = unpack(data, at)
        stop = at + prefix + length
        # A magic-0 entry that is cut off by the end passes here only if its checksum holds by chance: then ``at`` ends
        # up behind ``end``, which is refused below.
        if not magic:
            if not minimum <= length <= limit or crc(data[at + payload_at : stop]) != checksum:
                _refuse(data, at, max_message_bytes)
        elif magic == KEYED:
            if not _KEYED_MINIMUM <= length <= limit or stop > end or crc(data[at + HEAD_BYTES : stop]) != checksum:
                _refuse(data, at, max_message_bytes)
            if legacy:
                _refuse_for_legacy(data, at, "a message with a key, a time or headers (magic 2)")
            attributes, timestamp, key_length = _unpack_fields(data, at + HEAD_BYTES)
            value_at = at + (KEY_AT + key_length if key_length > 0 else KEY_AT)
            # The most common entries are checked here, all others in the function below.
            if attributes or timestamp < -1 or key_length < -1 or value_at >= stop or data[value_at]:
                _check_fields(keyed_parts, data, at, stop)
            if timestamp > newest:
                newest = timestamp
        elif magic == WRAPPER:
            if not _WRAPPER_MINIMUM <= length <= max_message_bytes + _UNCOUNTED_OF_WRAPPER or stop > end:
                _refuse(data, at, max_message_bytes)
            payload = data[at + WRAPPER_HEAD_BYTES : stop]
            _, _, attributes, checksum = _unpack_wrapper(data, at)
            if crc(payload) != checksum:
                _refuse(data, at, max_message_bytes)
            if attributes & CODEC_MASK and not may_be_produced(attributes, payload):
                _refuse_codec(data, at)
            if legacy and attributes & CODEC_MASK == _ZSTD:
                _refuse_for_legacy(data, at, "a wrapper of zstd")
        elif magic == BATCH:
            head = _check_batch(data, at, stop, max_batch_bytes)
            if legacy:
                _refuse_for_legacy(data, at, "a batch (magic 3)")
            has_batches = True
            if head.leader_epoch != -1:
                has_epochs = True
            if head.max_time > newest:
                newest = head.max_time
            count += head.messages - 1
        else:
            timestamp = _check_other(data, at, stop, max_message_bytes)
            if timestamp > newest:
                newest = timestamp
        count += 1
        at = stop
    if at != end or not count:
        _refuse(data, at, max_message_bytes)
    return tuple.__new__(Checked, (count, newest, has_batches, has_epochs))


def _check_batch(data: Buffer, at: int, stop: int, max_batch_bytes: int) -> BatchHead:
    """Check the batch in ``data[at:stop]`` but for its records; return its head. Raises as ``check_set`` does."""
    layout = LAYOUTS[BATCH]
    where = f"entry at byte {at} of a set of {len(data)} bytes"
    if stop - at - LENGTH_BYTES < layout.minimum or stop > len(data):
        _refuse(data, at, sys.maxsize)
    if stop - at > max_batch_bytes:
        raise MessageTooLarge(f"{where}: a batch of {stop - at} bytes, {max_batch_bytes} are allowed (batch.bytes)")
    try:
        check_batch_head(data, at, CHECKSUMS)
    except ValueError as error:
        raise InvalidMessage(f"{where}: {error}") from None
    if not layout.holds(data, at, stop):
        raise InvalidMessage(f"{where}: checksum mismatch")
    head = batch_head(data, at)
    if head.messages <= 0 or head.messages != head.last_delta + 1:
        problem = f"{head.messages} messages, the last with the number {head.last_delta}"
    elif stop - at != max(head.records_end, head.messages):
        problem = f"{stop - at} bytes, which is neither its records nor one byte for each of {head.messages} messages"
    elif any(data[at + head.records_end : stop]):
        problem = "a pad that is not zero"
    elif head.attributes & ~(BATCH_CODEC_MASK | APPEND_TIME) or head.codec not in BATCH_CODEC_NAMES:
        problem = f"attributes {head.attributes & 0xFFFF:#06x}; control and transactional batches are not taken"
    elif (head.producer_id, head.producer_epoch, head.base_sequence) != NO_PRODUCER:
        problem = f"producer id {head.producer_id}; only batches of no idempotent producer are taken"
    else:
        return head
    raise InvalidMessage(f"{where}: a batch with {problem}")


def _check_other(data: Buffer, at: int, stop: int, max_message_bytes: int) -> int:
    """Check an entry whose magic has no branch of its own above; return the newest time in it, -1 for none."""
    layout = LAYOUTS.get(data[at + MAGIC_AT])
    if layout is None or layout.is_gap or stop > len(data) or not layout.holds(data, at, stop):
        _refuse(data, at, max_message_bytes)
    if stop - at - layout.checked_from > max_message_bytes:
        _refuse(data, at, max_message_bytes)
    if layout.check_fields is not None:
        _check_fields(layout.check_fields, data, at, stop)
    return layout.time(data, at)


def _check_fields(check: Callable[[Buffer, int, int], object], data: Buffer, at: int, stop: int) -> None:
    """Check the fields of an entry whose checksum holds; raise InvalidMessage."""
    try:
        check(data, at, stop)
    except ValueError as error:
        raise InvalidMessage(f"entry at byte {at} of the set: {error}") from None


def _refuse(data: Buffer, at: int, max_message_bytes: int) -> NoReturn:
    """Raise the error for the invalid entry at ``at``. Not on the fast path, so it may check everything again."""
    left = len(data) - at
    where = f"entry at byte {at} of a set of {len(data)} bytes"
    if left <= 0:
        if not data:
            raise InvalidMessage("the message set is empty")
        raise InvalidMessage(f"the last entry is {counted(-left, 'byte')} longer than its set of {len(data)} bytes")
    if left < LEAST_BYTES:
        raise InvalidMessage(f"{where}: {counted(left, 'byte')} left over, too few for an entry")
    length, magic, _ = HEAD.unpack_from(data, at)
    layout = LAYOUTS.get(magic)
    if layout is None:
        raise InvalidMessage(f"{where}: magic {magic} is not known")
    if layout.is_gap:
        raise InvalidMessage(f"{where}: producers may not send gaps")
    if length < layout.minimum:
        raise InvalidMessage(f"{where}: length {length} is below the {layout.minimum} of magic {magic}")
    if length > left - LENGTH_BYTES:
        raise InvalidMessage(f"{where}: length {length} does not fit the {left - LENGTH_BYTES} bytes left")
    size = LENGTH_BYTES + length - layout.checked_from
    if size > max_message_bytes:
        raise MessageTooLarge(f"{where}: {size} bytes, {max_message_bytes} are allowed")
    raise InvalidMessage(f"{where}: checksum mismatch")


def _refuse_for_legacy(data: Buffer, at: int, what: str) -> NoReturn:
    """Raise the error for a sound entry at ``at`` that clients of 0.7 cannot read."""
    raise InvalidMessage(
        f"entry at byte {at} of a set of {len(data)} bytes: {what}, but the topic has message.format = 0.7, for "
        "clients of Kafka 0.7, which could not read it"
    )


def _refuse_codec(data: bytes | memoryview, at: int) -> NoReturn:
    """Raise the error for the wrapper at ``at``, whose payload is not of the codec in its attributes."""
    codec = CODEC_NAMES[codec_at(data, at)]
    payload_at = at + WRAPPER_HEAD_BYTES
    if is_mark_payload(data[payload_at:]):
        raise InvalidMessage(
            f"entry at byte {at} of a set of {len(data)} bytes is the mark of a leader epoch, which only brokers write"
        )
    begin = bytes(data[payload_at : payload_at + 8]).hex() or "nothing"
    raise InvalidMessage(
        f"entry at byte {at} of a set of {len(data)} bytes: a wrapper whose attributes say {codec} holds bytes that "
        f"{codec} data cannot begin with ({begin}): no consumer could read it"
    )
