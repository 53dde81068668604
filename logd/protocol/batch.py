"""The encoding of batches: messages under one checksum, compressed or not, split where one batch would be too large."""

from __future__ import annotations

from collections.abc import Sequence

from logd.config.log import DEFAULT_BATCH_BYTES
from logd.protocol import loops
from logd.protocol.batch_layout import BATCH_HEAD_BYTES, encode_batch_entry
from logd.protocol.codecs import BATCH_CODEC_NUMBERS, compress
from logd.protocol.message import Message
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES


def encode_batch(messages: Sequence[Message], codec: str = "none") -> bytes:
    """Return one batch of all these messages, at least one. Raises ValueError for a codec that batches do not have."""
    number = BATCH_CODEC_NUMBERS.get(codec)
    if number is None:
        raise ValueError(f"compression {codec!r} is not known: {', '.join(BATCH_CODEC_NUMBERS)}")
    records, base, newest = loops.encode_records(messages)
    return encode_batch_entry(compress(codec, records) if number else records, len(messages), base, newest, number)


def encode_batches(messages: Sequence[Message], codec: str = "none", max_bytes: int = DEFAULT_BATCH_BYTES) -> bytes:
    """Return the messages as one batch or several, each of at most ``max_bytes`` if one message does not exceed it.

    Decompressed, each stays within the readers' default limits. A set that would break one of these rules is split in
    halves until each half keeps them all or is a single message.
    """
    if not messages:
        return b""
    single = len(messages) == 1
    if single or len(messages) <= DEFAULT_MAX_DECOMPRESSED_MESSAGES:
        number = BATCH_CODEC_NUMBERS[codec]
        records, base, newest = loops.encode_records(messages)
        may_fit = len(records) <= (DEFAULT_MAX_DECOMPRESSED if number else max_bytes - BATCH_HEAD_BYTES)
        if single or may_fit:
            data = compress(codec, records) if number else records
            batch = encode_batch_entry(data, len(messages), base, newest, number)
            if single or len(batch) <= max_bytes:
                return batch
    middle = len(messages) // 2
    return b"".join([encode_batches(half, codec, max_bytes) for half in (messages[:middle], messages[middle:])])
