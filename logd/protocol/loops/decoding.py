"""The decoding of message sets into messages."""

from __future__ import annotations

import gc
import sys
from itertools import repeat

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.batch_layout import BATCH
from logd.protocol.checksums import crc32
from logd.protocol.entry import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    GAP,
    HEAD,
    HEAD_BYTES,
    KEY_AT,
    KEYED,
    KEYED_FIELDS,
    LAYOUTS,
    LEAST_BYTES,
    LENGTH,
    LENGTH_BYTES,
    MAGIC_AT,
    WRAPPER,
    WRAPPER_HEAD,
    WRAPPER_HEAD_BYTES,
    MessageFields,
    gap_length,
    keyed_parts,
)
from logd.protocol.loops.openbatch import open_batch
from logd.protocol.loops.openwrapper import open_wrapper_entry
from logd.protocol.loops.results import Decoded, OpenEntry
from logd.protocol.message import Message
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES

_unpack_head = HEAD.unpack_from
_unpack_fields = KEYED_FIELDS.unpack_from
_unpack_wrapper = WRAPPER_HEAD.unpack_from
#: The least N of any entry.
_LEAST = LEAST_BYTES - LENGTH_BYTES
_WRAPPER_MINIMUM = LAYOUTS[WRAPPER].minimum
_KEYED_MINIMUM = LAYOUTS[KEYED].minimum

_PAUSE_COLLECTOR_BYTES = 8192  # below, the pause costs more than it saves


def decode_set(
    data: bytes,
    position: int = 0,
    *,
    begin: int = 0,
    start_at: int = -1,
    topic: str | None = None,
    partition: int = -1,
    limit: int = sys.maxsize,
    limit_bytes: int = DEFAULT_MAX_DECOMPRESSED,
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
    max_decompressed_messages: int = DEFAULT_MAX_DECOMPRESSED_MESSAGES,
    opened: OpenEntry | None = None,
) -> Decoded:
    """Decode the entries of ``data`` from index ``begin`` on, an entry boundary at log position ``position``.

    Ends without an error at a partial tail, after ``limit`` messages and gaps, and after about ``limit_bytes``
    (decompressed bytes included). Ends with ``error`` at an invalid entry. To continue, call again from ``consumed``
    and its position. A wrapper or batch may take several calls, some of which return no message: pass what the previous
    result has as ``opened``, and the position of the entry's start.

    The error is WrapperTooLarge for a wrapper or batch that would become larger than ``max_decompressed`` bytes or
    ``max_decompressed_messages``. A wrapper that contains a wrapper, or anything else that is not a message, is invalid
    as a whole: it is checked before its first message is returned. One checksum covers all of a batch; if it matches,
    but a record is invalid, the producer made it so, and the messages before it are returned.

    ``start_at``: leave out the messages before this position, for a consumer that starts inside a wrapper or batch.
    """
    if type(data) is not bytes:
        data = bytes(data)  # payloads are slices, and have to be bytes
    # The garbage collector is paused: during the loop it would only scan objects that are all alive. A message took
    # 0.85 to 0.96 us with it and 0.55 without. Nothing here makes a cycle.
    collecting = (len(data) - begin > _PAUSE_COLLECTOR_BYTES or opened is not None) and gc.isenabled()
    if collecting:
        gc.disable()
    try:
        bounds = max_decompressed, max_decompressed_messages
        decoded = decode_rest(
            data, position, begin, start_at, topic, partition, limit, limit_bytes, bounds, opened, [], 0
        )
    finally:
        if collecting:
            gc.enable()
    if start_at > position:
        decoded = decoded._replace(
            messages=[each for each in decoded.messages if each.next_position > start_at or each.id >= start_at]
        )
    return decoded


def decode_rest(
    data: bytes,
    here: int,
    at: int,
    start_at: int,
    topic: str | None,
    partition: int,
    limit: int,
    limit_bytes: int,
    bounds: tuple[int, int],
    opened: OpenEntry | None,
    messages: list[Message],
    entries: int,
) -> Decoded:
    """Decode from index ``at``, at position ``here``, behind ``entries`` entries that gave these ``messages``.

    ``limit`` counts them, ``limit_bytes`` does not; the messages found are appended to the list. No message is left out
    for ``start_at`` but in wrappers. The compiled twin of decode_set ends here with all that it does not handle itself.
    """
    end = len(data)
    whole = end - LEAST_BYTES
    last = min(whole, at + limit_bytes)
    base = here - at
    gaps = gap_bytes = needed = 0
    wrong: CorruptMessage | WrapperTooLarge | None = None
    reason = ""
    error_end = -1
    left_bytes = limit_bytes + at
    append = messages.append
    new = tuple.__new__
    cls = Message
    prefix, payload_at = LENGTH_BYTES, HEAD_BYTES
    unpack = _unpack_head
    crc = crc32
    for _ in repeat(None, limit - entries):
        if at > last:
            if whole < at < end:
                reason, needed = _tail(data, at)
            break
        length, magic, checksum = unpack(data, at)
        stop = at + prefix + length
        if stop > end or length < _LEAST:
            reason, needed = _tail(data, at)
            if not needed and not reason:
                gaps += 1
                gap_bytes += length + LENGTH_BYTES
                here = base + stop
                at = end
            break
        following = base + stop
        if not magic:
            payload = data[at + payload_at : stop]
            if crc(payload) != checksum:
                reason, error_end = "checksum mismatch", following
                break
            append(new(cls, (payload, None, None, (), here, following, topic, partition)))
        elif magic == KEYED:
            if length < _KEYED_MINIMUM or crc(data[at + HEAD_BYTES : stop]) != checksum:
                reason, error_end = "wrong length or checksum", following
                break
            attributes, timestamp, key_length = _unpack_fields(data, at + HEAD_BYTES)
            key_at = at + KEY_AT
            value_at = key_at + key_length if key_length > 0 else key_at
            if attributes or timestamp < -1 or key_length < -1 or value_at >= stop or data[value_at]:
                try:
                    headers, value_at = keyed_parts(data, at, stop)
                except ValueError as error:
                    reason, error_end = str(error), following
                    break
            else:
                headers = ()
                value_at += 1
            value = None if attributes else data[value_at:stop]
            key = None if key_length < 0 else data[key_at : key_at + key_length]
            time = None if timestamp < 0 else timestamp
            append(new(cls, (value, key, time, headers, here, following, topic, partition)))
        elif magic == WRAPPER and length >= _WRAPPER_MINIMUM and not data[at + ATTRIBUTES_AT] & CODEC_MASK:
            payload = data[at + WRAPPER_HEAD_BYTES : stop]
            if crc(payload) != _unpack_wrapper(data, at)[3]:
                reason, error_end = "wrong length or checksum", following
                break
            append(new(cls, (payload, None, None, (), here, following, topic, partition)))
        elif magic in (WRAPPER, BATCH):
            try:
                opened = opened or _open(data, at, stop, here, bounds)
                found, size = opened.take(limit - len(messages), max(left_bytes - at, 1), start_at, topic, partition)
            except (CorruptMessage, WrapperTooLarge) as error:
                wrong, opened, error_end = error, None, following
                break
            messages += found
            if not opened.done:
                here = opened.position
                break
            opened = None
            left_bytes -= size
            last = min(last, left_bytes)
            if last < stop or len(messages) >= limit:
                at = stop
                here = following
                break
        elif magic == GAP and gap_length(data, at):
            gaps += 1
            gap_bytes += length + LENGTH_BYTES
        else:
            try:
                fields = _other_fields(data, at, stop)
            except ValueError as error:
                reason, error_end = str(error), following
                break
            append(new(cls, (*fields, here, following, topic, partition)))
        at = stop
        here = following
    if reason:
        wrong = CorruptMessage(reason, here)
    return Decoded(messages, here, at, gaps, gap_bytes, wrong, error_end, needed, opened)


def _open(data: bytes, at: int, stop: int, here: int, bounds: tuple[int, int]) -> OpenEntry:
    """Open the wrapper or batch in ``data[at:stop]``, at position ``here``; raise CorruptMessage or WrapperTooLarge."""
    magic = data[at + MAGIC_AT]
    if not LAYOUTS[magic].holds(data, at, stop):
        raise CorruptMessage("wrong length or checksum", here)
    following = here + stop - at
    if magic == BATCH:
        return open_batch(data, at, here, following, *bounds)
    payload = data[at + WRAPPER_HEAD_BYTES : stop]
    return open_wrapper_entry(data[at + ATTRIBUTES_AT], payload, here, following, *bounds)


def _other_fields(data: bytes, at: int, stop: int) -> MessageFields:
    """Return the fields of an entry whose magic has no branch of its own above; raise ValueError."""
    magic = data[at + MAGIC_AT]
    layout = LAYOUTS.get(magic)
    if layout is None or layout.is_gap:
        raise ValueError(f"magic {magic} is not known, or does not hold")
    if not layout.holds(data, at, stop):
        raise ValueError("wrong length or checksum")
    return layout.fields(data, at, stop)


def _tail(data: bytes, at: int) -> tuple[str, int]:
    """Return (problem, size) of the entry at ``at``, which is incomplete in the data or has too small a length.

    Both are empty for a gap with a complete head, and for fewer bytes than a length.
    """
    left = len(data) - at
    if left < LENGTH_BYTES:
        return "", 0
    (length,) = LENGTH.unpack_from(data, at)
    if left == LENGTH_BYTES:
        return ("", length + LENGTH_BYTES) if length >= _LEAST else (f"length {length} is that of no entry", 0)
    magic = data[at + MAGIC_AT]
    layout = LAYOUTS.get(magic)
    if layout is None:
        return f"magic {magic} is not known", 0
    if length < layout.minimum:
        return f"length {length} is below the {layout.minimum} of magic {magic}", 0
    if magic == GAP and left >= LEAST_BYTES:
        return ("", 0) if gap_length(data, at) else ("checksum mismatch in a gap", 0)
    return "", length + LENGTH_BYTES
