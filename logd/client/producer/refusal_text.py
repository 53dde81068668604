"""Errors for refused batches that name the message and the setting."""

from __future__ import annotations

from collections.abc import Sequence

from logd.client.producer.batches.batch import ProducerBatch
from logd.client.producer.formats import ENTRY_HEAD_BYTES
from logd.errors import InvalidMessage, MessageTooLarge, WireError, error_for_code
from logd.protocol import loops
from logd.protocol.entry import LAYOUTS, MAGIC_AT
from logd.protocol.message import Message
from logd.protocol.message_size import entry_bytes


def refusal(batch: ProducerBatch, code: int) -> WireError:
    """Return the error for a batch that the broker answered with ``code``; the text names the batch."""
    error = error_for_code(code)
    if not isinstance(error, MessageTooLarge | InvalidMessage):
        return error
    where = f"topic {batch.topic!r}, partition {batch.partition}"
    count = "a message" if batch.messages == 1 else f"a set of {batch.messages} messages, none of which is stored"
    if isinstance(error, InvalidMessage):
        return InvalidMessage(f"{where}: the broker refused {count}: {error}")
    by_number = batch.form.by_number
    number, size = largest_message(batch.decoded()) if by_number else largest(batch.encode())
    which = "" if batch.messages == 1 else f"number {number} of it is the largest: "
    setting = "batch.bytes" if by_number else "message.bytes"
    return MessageTooLarge(
        f"{where}: the broker refused {count}: {which}it has {size} bytes with key and headers, and the setting "
        f"{setting} of the broker or the topic allows fewer"
    )


def largest(data: bytes) -> tuple[int, int]:
    """Return the number (from 1) and bytes of the largest entry of a set, without its length, magic and checksum."""
    at = 0
    found = (0, 0)
    for number, end in enumerate(loops.ends_of_set(data), 1):
        found = max(found, (end - at - LAYOUTS[data[at + MAGIC_AT]].checked_from, number))
        at = end
    return found[1], found[0]


def largest_message(messages: Sequence[Message]) -> tuple[int, int]:
    """Return the number (from 1) and bytes of the largest message of a batch, counted as ``largest`` does."""
    size, number = max((entry_bytes(message), -number) for number, message in enumerate(messages, 1))
    return -number, size - ENTRY_HEAD_BYTES
