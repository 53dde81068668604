"""A large message set in slices, so that it can be checked or decoded bit by bit."""

from __future__ import annotations

from collections.abc import Iterator

from logd.errors import InvalidMessage, MessageTooLarge
from logd.protocol import loops

#: Messages, and bytes of them, that are decoded at a time.
DECODED_MESSAGES = 2000
DECODED_BYTES = 1 << 20


def check_in_slices(
    data: bytes, max_message_bytes: int, most_entries: int, most_bytes: int
) -> Iterator[tuple[int, int]]:
    """Check a set as ``check_set`` does; yield what it returns for each slice.

    Raises what it raises; the position that is named there is then that in a slice, and the slice's is named too.
    """
    at = 0
    while True:
        stop = loops.slice_end(data, at, most_entries, most_bytes)
        try:
            yield loops.check_set(data[at:stop], max_message_bytes)
        except (InvalidMessage, MessageTooLarge) as error:
            if at:
                raise type(error)(f"behind byte {at}: {error}") from None
            raise
        at = stop
        if at >= len(data):
            return


def decode_in_slices(data: bytes, position: int = 0) -> Iterator[loops.Decoded]:
    """Decode a set, which begins at log position ``position``; yield what ``decode_set`` returns for each slice.

    Memory is bounded by a slice, and by one wrapper's bytes. The last slice is the one with an error, or at the end of
    the entries that the data holds whole.
    """
    at = 0
    wrapper = None
    while at < len(data):
        decoded = loops.decode_set(
            data, position + at, begin=at, limit=DECODED_MESSAGES, limit_bytes=DECODED_BYTES, wrapper=wrapper
        )
        yield decoded
        if decoded.error is not None or (decoded.consumed == at and decoded.wrapper is None):
            return
        at, wrapper = decoded.consumed, decoded.wrapper
