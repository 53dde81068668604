"""Message sets for a topic whose number of partitions differs from the source's: decoded, and divided by key."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from logd.errors import CorruptMessage
from logd.protocol import loops
from logd.protocol.key_placement import partition_of_key
from logd.protocol.message import Message

#: Decoded bytes of one round, which bounds memory where sets are compressed.
ROUND_BYTES = 1 << 20


@frozen
class KeyedSet:
    """Messages of one source partition for one partition of the target."""

    partition: int
    data: bytes


def sets_by_key(data: bytes, position: int, partition: int, partitions: int) -> Iterator[KeyedSet]:
    """Yield the messages of a set for the target's partitions 0 to ``partitions`` - 1, in order for each of them.

    A key decides as in producers (docs/clients.md). Messages without one all go to ``partition`` modulo ``partitions``,
    so that they stay in order too. Raises CorruptMessage, and WrapperTooLarge for a set that becomes too large.
    """
    at, begin = 0, position
    opened: loops.OpenEntry | None = None
    without_key = partition % partitions
    while at < len(data):
        decoded = loops.decode_set(data, begin, begin=at, limit_bytes=ROUND_BYTES, opened=opened)
        parts: dict[int, list[Message]] = {}
        for message in decoded.messages:
            key = message.key
            chosen = without_key if key is None else partition_of_key(key, partitions)
            parts.setdefault(chosen, []).append(message)
        for chosen, messages in sorted(parts.items()):
            yield KeyedSet(chosen, loops.encode_set(messages))
        if decoded.error is not None:
            raise decoded.error
        if decoded.consumed == at and decoded.opened is None:
            raise CorruptMessage("the set ends inside an entry", begin)
        begin += decoded.consumed - at  # the start of the next entry, or of the one that is open
        at, opened = decoded.consumed, decoded.opened
