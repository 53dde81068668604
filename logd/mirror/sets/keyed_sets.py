"""Message sets for a topic whose number of partitions differs from the source's: decoded, and divided by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen

from logd.errors import CorruptMessage
from logd.protocol import loops
from logd.protocol.key_placement import partition_of_key
from logd.protocol.message import Message
from logd.protocol.slices import DEFAULT_BOUNDS, Bounds, Steps, decode_in_slices

#: Bytes of one round: a set for one partition has about that many at most.
ROUND_BYTES = 1 << 20


@frozen
class KeyedSet:
    """Messages of one source partition for one partition of the target."""

    partition: int
    data: bytes


def divide_by_key(
    data: bytes,
    position: int,
    partition: int,
    partitions: int,
    put: Callable[[KeyedSet], object],
    bounds: Bounds = DEFAULT_BOUNDS,
) -> Steps[None]:
    """Call ``put`` with the messages of a set for the target's partitions 0 to ``partitions`` - 1, in order for each.

    A key decides as in producers (docs/clients.md). Messages without one all go to ``partition`` modulo ``partitions``,
    so that they stay in order too. Raises CorruptMessage, and WrapperTooLarge for a wrapper or batch that would become
    more than ``bounds``; messages before it may have been put.
    """
    without_key = partition % partitions
    pieces: dict[int, list[bytes]] = {}
    size = 0

    def end_round() -> None:
        for chosen, parts in sorted(pieces.items()):
            put(KeyedSet(chosen, b"".join(parts)))
        pieces.clear()

    yield True
    for decoded in _slices(data, position, bounds):
        divided: dict[int, list[Message]] = {}
        for message in decoded.messages:
            key = message.key
            chosen = without_key if key is None else partition_of_key(key, partitions)
            divided.setdefault(chosen, []).append(message)
        for chosen, messages in divided.items():
            message_set = loops.encode_set(messages)
            pieces.setdefault(chosen, []).append(message_set)
            size += len(message_set)
        if size >= ROUND_BYTES:
            end_round()
            size = 0
        if decoded.opened is None:
            yield False
        yield True
    end_round()


def divide_little(
    data: bytes, position: int, partition: int, partitions: int, most_bytes: int, bounds: Bounds = DEFAULT_BOUNDS
) -> Steps[list[KeyedSet] | None]:
    """Return a set divided by key, None if it becomes more than ``most_bytes``. Raises as ``divide_by_key``."""
    found: list[KeyedSet] = []
    size = 0

    def put(each: KeyedSet) -> None:
        nonlocal size
        found.append(each)
        size += len(each.data)

    for _ in divide_by_key(data, position, partition, partitions, put, bounds):
        if size > most_bytes:
            return None
        yield True  # also between entries, since what was found is held
    return found


def check_entries(data: bytes, position: int, bounds: Bounds = DEFAULT_BOUNDS) -> Steps[None]:
    """Raise what ``divide_by_key`` would raise."""
    yield True
    for decoded in _slices(data, position, bounds):
        if decoded.opened is None:
            yield False
        yield True


def _slices(data: bytes, position: int, bounds: Bounds) -> Iterator[loops.Decoded]:
    at = 0
    for decoded in decode_in_slices(data, position, bounds=bounds):
        if decoded.error is not None:
            raise decoded.error
        yield decoded
        at = decoded.consumed
    if at < len(data):
        raise CorruptMessage("the set ends inside an entry", position + at)
