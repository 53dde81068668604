"""The check and the decoding of a large message set in slices, so that neither takes long at a time."""

from __future__ import annotations

from collections.abc import Iterator

from logd.errors import InvalidMessage, MessageTooLarge
from logd.protocol import loops

#: The most messages, and about the most bytes, decoded at a time.
DECODED_MESSAGES = 2000
DECODED_BYTES = 1 << 20


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


def decode_in_slices(data: bytes, position: int = 0) -> Iterator[loops.Decoded]:
    """Decode a set, which begins at log position ``position``, and yield the result of ``decode_set`` for each slice.

    Memory is bounded by one slice and one wrapper's bytes. The last slice has an error, or ends with the last complete
    entry.
    """
    at = 0
    opened = None
    while at < len(data):
        decoded = loops.decode_set(
            data, position + at, begin=at, limit=DECODED_MESSAGES, limit_bytes=DECODED_BYTES, opened=opened
        )
        yield decoded
        if decoded.error is not None or (decoded.consumed == at and decoded.opened is None):
            return
        at, opened = decoded.consumed, decoded.opened
