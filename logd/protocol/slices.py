"""The check and the decoding of a large message set in slices, so that neither takes long at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeAlias, TypeVar

from logd.errors import InvalidMessage, MessageTooLarge
from logd.protocol import loops
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES

T = TypeVar("T")

#: The most messages, and about the most bytes, decoded at a time.
DECODED_MESSAGES = 2000
DECODED_BYTES = 1 << 20
#: The most bytes and messages that a wrapper or batch may become.
Bounds: TypeAlias = tuple[int, int]
DEFAULT_BOUNDS: Bounds = DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES
#: Work in steps of a millisecond or so. It yields before each: True before one that opens a wrapper or batch, or goes
#: on with an open one, whose memory is then held; False where none is open.
Steps: TypeAlias = Generator[bool, None, T]


def result_of(steps: Steps[T]) -> T:
    """Take all steps at once, and return what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # StopIteration has no type of its value


def check_in_slices(
    data: bytes,
    max_message_bytes: int,
    max_batch_bytes: int,
    most_entries: int,
    most_bytes: int,
    legacy: bool = False,
) -> Iterator[loops.Checked]:
    """Check a set as ``check_set`` does, and yield its result for each slice.

    Raises the errors of ``check_set``, which name the position in the slice, together with the slice's position.
    """
    at = 0
    while True:
        stop = loops.slice_end(data, at, most_entries, most_bytes)
        try:
            yield loops.check_set(data[at:stop], max_message_bytes, max_batch_bytes, legacy)
        except (InvalidMessage, MessageTooLarge) as error:
            if at:
                raise type(error)(f"behind byte {at}: {error}") from None
            raise
        at = stop
        if at >= len(data):
            return


def decode_in_slices(
    data: bytes, position: int = 0, begin: int = 0, bounds: Bounds = DEFAULT_BOUNDS
) -> Iterator[loops.Decoded]:
    """Decode a set from index ``begin`` on, and yield the result of ``decode_set`` for each slice.

    The whole set begins at log position ``position``. Memory is bounded by one slice and one wrapper's bytes. The last
    slice has an error, or ends with the last complete entry.
    """
    at = begin
    opened = None
    most_bytes, most_messages = bounds
    while at < len(data):
        decoded = loops.decode_set(
            data,
            position + at,
            begin=at,
            limit=DECODED_MESSAGES,
            limit_bytes=DECODED_BYTES,
            max_decompressed=most_bytes,
            max_decompressed_messages=most_messages,
            opened=opened,
        )
        yield decoded
        if decoded.error is not None or (decoded.consumed == at and decoded.opened is None):
            return
        at, opened = decoded.consumed, decoded.opened
