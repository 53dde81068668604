"""The pieces of a send, each of which fits into a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from logd.client.producer.batches.batch import RECORD_MEMORY
from logd.client.producer.formats import ENTRY_HEAD_BYTES, Format, Record, too_large
from logd.protocol import loops
from logd.protocol.batch import encode_batches
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from logd.protocol.message_size import entry_bytes


class BatchPiece(NamedTuple):
    """Messages of one send for one batch, and their bytes as the format counts them."""

    records: Sequence[Record]
    size: int


def pieces_of(messages: Sequence[Message], form: Format, batch_bytes: int, message_bytes: int) -> list[BatchPiece]:
    """Divide messages, at least one, into pieces for batches of at most ``batch_bytes`` bytes, in order.

    A single message may be larger than ``batch_bytes``, but raises MessageTooLarge when its bytes as an entry, after
    the checksum, are more than ``message_bytes``.
    """
    room, most, overhead = batch_bytes - form.head_bytes, form.most_messages, form.payload_overhead
    limit = message_bytes + ENTRY_HEAD_BYTES
    sizes = loops.payload_sizes(messages)
    if sizes is not None and len(messages) <= most:  # most often one piece, which takes no look at each message
        total = sizes[0] + overhead * len(messages)
        if total <= room and sizes[1] + overhead <= limit:
            return [BatchPiece(messages, total)]
    pieces: list[BatchPiece] = []
    begin = total = 0
    for number, message in enumerate(messages):
        payload, key, timestamp, headers, _, _, _, _ = message
        if key is None and timestamp is None and not headers and payload is not None:
            size = len(payload) + overhead  # as the format says, without its two calls
        else:
            size = form.size(message)
        if size > limit and entry_bytes(message) > limit:
            raise too_large(entry_bytes(message), message_bytes, number + 1)
        if (total + size > room and number > begin) or number - begin >= most:
            pieces.append(BatchPiece(messages[begin:number], total))
            begin, total = number, 0
        total += size
    pieces.append(BatchPiece(messages[begin:], total))
    return pieces


def encoded_pieces(
    messages: Sequence[Message], form: Format, codec: str, batch_bytes: int, message_bytes: int, first: int = 1
) -> list[tuple[bytes, int]]:
    """Encode messages with a compression of their own: (set, number of messages) each, in order.

    A compressed set is one entry, so ``message_bytes`` limits a wrapper, and a message that is too large even alone
    raises MessageTooLarge. ``first`` is the number of the first message in its set, for the error.
    """
    if form.by_number:
        data = encode_batches(messages, codec, batch_bytes)
        limit, most = batch_bytes, message_bytes + ENTRY_HEAD_BYTES + form.head_bytes + RECORD_MEMORY
    else:
        data = wrap(messages, codec)
        limit, most = min(batch_bytes, message_bytes), message_bytes + ENTRY_HEAD_BYTES
    if len(messages) == 1:
        if len(data) > most:
            raise too_large(len(data), message_bytes, first)
        return [(data, 1)]
    if len(data) <= limit and len(data) <= most:
        return [(data, len(messages))]
    middle = len(messages) // 2
    return [
        *encoded_pieces(messages[:middle], form, codec, batch_bytes, message_bytes, first),
        *encoded_pieces(messages[middle:], form, codec, batch_bytes, message_bytes, first + middle),
    ]
