"""Batches of Kafka's clients as entries that clients of 0.7 can read: a plain message (magic 0) for each record."""

from __future__ import annotations

from logd.protocol import loops
from logd.protocol.message import Message


class NoLegacyForm(ValueError):
    """A record has what a message of 0.7 cannot have."""


def legacy_entries(batch: bytes) -> tuple[bytes, int]:
    """Return the records of a batch, an entry, as plain messages, and the bytes of the first one.

    Times are left out. Raises NoLegacyForm for a key, headers or a missing value, and for records that cannot be read.
    """
    decoded = loops.decode_set(batch)
    if decoded.error is not None:
        raise NoLegacyForm(f"the batch cannot be read: {decoded.error}")
    messages = []
    while True:
        for each in decoded.messages:
            if each.key is not None or each.headers or each.payload is None:
                raise NoLegacyForm(
                    "a record with a key, with headers or without a value, in a topic for clients of 0.7 "
                    "(message.format = 0.7)"
                )
            messages.append(Message(each.payload))
        if decoded.opened is None:
            break
        decoded = loops.decode_set(batch, opened=decoded.opened)
        if decoded.error is not None:
            raise NoLegacyForm(f"the batch cannot be read: {decoded.error}")
    if not messages:
        raise NoLegacyForm("the batch has no records")
    return loops.encode_set(messages), len(loops.encode_set(messages[:1]))
