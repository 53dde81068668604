"""The pieces of one range of a log that are sent to a client of Kafka, and their bounds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

from attrs import define

from logd.protocol import loops
from logd.protocol.kafka.wire_batches import KAFKA_MAGIC
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES


class StoredRun(NamedTuple):
    """Batches at [position, position + size) of the log, perhaps with gaps; see logd.protocol.loops.batch_runs."""

    position: int
    size: int
    wire_bytes: int


class LargeBatch(NamedTuple):
    """One batch: its first bytes on the wire, and where the log has the others."""

    base_offset: bytes
    #: The position of the first of them, and their number.
    position: int
    size: int


#: A piece that is sent: bytes that were made, or batches of the log.
Item = bytes | StoredRun | LargeBatch


@define
class AnswerBounds:
    """The bounds of what is sent of one range."""

    #: Bounds of the messages in one wrapper of 0.7, decompressed.
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED
    max_decompressed_messages: int = DEFAULT_MAX_DECOMPRESSED_MESSAGES
    #: The bytes that may be sent. A first batch is sent even if it has more, where ``first`` is True.
    room: int = sys.maxsize
    #: Of them, the bytes that may be made here.
    made_room: int = sys.maxsize
    first: bool = True
    #: Messages before this position are left out of wrappers.
    start_at: int = -1
    #: The format to send: Kafka's magic. Below 2 there are no batches.
    magic: int = KAFKA_MAGIC
    #: The codecs of batches that the client may know, as bits; others are decompressed.
    codecs: int = loops.ALL_CODECS
    #: The position behind the bytes that the log can serve as one range.
    range_end: int = sys.maxsize
    #: Small runs of stored batches, up to this many bytes together, are copied all the same: it costs less.
    direct_room: int = sys.maxsize
    #: True where the conversion may take no more than some milliseconds.
    inline: bool = False
    #: Returns whether these bytes, by position and size, are in the page cache: what is not is asked for whole.
    is_warm: Callable[[int, int], bool] | None = None
