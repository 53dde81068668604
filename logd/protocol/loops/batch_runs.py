"""Runs of stored batches on their way to a client of Kafka: found by their heads, and sent with other first bytes.

    in a log       int32 N | 03 | uint24 check | int32 L | ... | records | pad
    on the wire    int64 base offset           | int32 L | ... | records

A run is a number of batches that follow one another in a log, with gaps between them, which are not sent, no more than
the pads are. The base offset is the batch's end in the log less the number of its last message plus one.
"""

from __future__ import annotations

import sys
from struct import Struct
from typing import NamedTuple

from logd.protocol.batch_layout import BATCH, BATCH_HEAD_BYTES, batch_head, check_batch_head
from logd.protocol.entry import GAP, LAYOUTS, MAGIC_AT, Buffer, gap_length, size_at

_BASE_OFFSET = Struct(">q")
_BASE_OFFSET_BYTES = _BASE_OFFSET.size
_BATCH_LAYOUT = LAYOUTS[BATCH]
#: All codecs of batches, as bits.
ALL_CODECS = 0xFF


class BatchRun(NamedTuple):
    """The batches that one call of find_batches found."""

    #: The index behind the last batch or gap, and that behind the last batch (the beginning if there is none).
    consumed: int
    end: int
    #: Bytes of the batches on the wire.
    wire_bytes: int


def find_batches(
    data: Buffer,
    begin: int = 0,
    *,
    most_bytes: int = sys.maxsize,
    largest: int = sys.maxsize,
    codecs: int = ALL_CODECS,
    verify: bool = False,
) -> BatchRun:
    """Find the batches and gaps that follow one another from ``begin`` on and are whole in ``data``.

    Stops before a batch whose entry is larger than ``largest``, one that would make the run take more than
    ``most_bytes`` on the wire, one whose codec is no bit of ``codecs``, and before what is damaged: by its head, and
    with ``verify`` by its checksum too.
    """
    at = end = begin
    stop = len(data)
    wire_bytes = 0
    while (size := size_at(data, at)) and at + size <= stop:
        magic = data[at + MAGIC_AT]
        if magic == GAP and gap_length(data, at) == size:
            at += size
            continue
        if magic != BATCH or size > largest:
            break
        try:
            check_batch_head(data, at)
        except ValueError:
            break
        head = batch_head(data, at)
        if (
            wire_bytes + head.records_end > most_bytes
            or not codecs >> head.codec & 1
            or (verify and not _BATCH_LAYOUT.holds(data, at, at + size))
        ):
            break
        wire_bytes += head.records_end
        at += size
        end = at
    return BatchRun(at, end, wire_bytes)


def wire_of_run(data: bytes, position: int) -> bytes:
    """Return a run that begins at ``position`` as Kafka's clients are sent it.

    Raises ValueError if the data are anything but whole batches and gaps: the log was changed since they were found.
    """
    pieces: list[bytes | memoryview] = []
    view = memoryview(data)
    stop = len(data)
    at = 0
    while at < stop:
        size = size_at(data, at)
        if not size or at + size > stop:
            raise ValueError(f"no whole entry at position {position + at}")
        if gap_length(data, at) != size:
            if data[at + MAGIC_AT] != BATCH or size < BATCH_HEAD_BYTES:
                raise ValueError(f"no batch at position {position + at}")
            head = batch_head(data, at)
            if not BATCH_HEAD_BYTES <= head.records_end <= size:
                raise ValueError(f"a batch with other lengths at position {position + at}")
            pieces.append(_BASE_OFFSET.pack(position + at + size - head.last_delta - 1))
            pieces.append(view[at + _BASE_OFFSET_BYTES : at + head.records_end])
        at += size
    return b"".join(pieces)
