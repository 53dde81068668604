"""The entries of a segment as records for display, damaged ones included."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.interfaces import IFileOperations
from logd.log.damage.entries import Entries
from logd.log.damage.evidence import Evidence
from logd.log.damage.inspection import SegmentPlace
from logd.log.epochs.mark import EpochMark, read_epoch_mark
from logd.log.index.boundaries import read_boundaries
from logd.protocol.batch_layout import BATCH, batch_head
from logd.protocol.codecs import BATCH_CODEC_NAMES, CODEC_NAMES
from logd.protocol.entry import GAP, LAYOUTS, LEAST_BYTES, MAGIC_AT, codec_at, holds_several
from logd.protocol.message import Message
from logd.protocol.slices import decode_in_slices


class Record(NamedTuple):
    """One entry, or one message ``inside`` a wrapper or batch."""

    id: int
    next_position: int
    magic: int | None
    codec: str | None
    #: Bytes on the disk; 0 for a message inside a wrapper or batch.
    size: int
    problem: str
    inside: bool = False
    timestamp: int | None = None
    #: Shortened; the full length is beside it.
    key: bytes | None = None
    key_bytes: int = 0
    headers: int = 0
    payload: bytes | None = None
    payload_bytes: int = 0
    #: The reason why a sound wrapper or batch is not expanded, empty if it is.
    unopened: str = ""
    #: The epoch and the leader, of an entry that is the mark of a leader epoch.
    mark: EpochMark | None = None

    def to_json(self) -> str:
        """Return one line of JSON; bytes that are not UTF-8 are in base64, in a field whose name says so."""
        value: dict[str, Any] = {"id": self.id, "next": self.next_position, "magic": self.magic, "codec": self.codec}
        value |= {"size": self.size, "inside": self.inside, "crc_ok": not self.problem, "problem": self.problem or None}
        value |= {"timestamp": self.timestamp, **_bytes_field("key", self.key), "headers": self.headers}
        if self.unopened:
            value |= {"unopened": self.unopened}
        if self.mark is not None:
            value |= {"leader_epoch": self.mark.epoch, "leader": self.mark.broker}
        return json.dumps(value | _bytes_field("payload", self.payload) | {"payload_bytes": self.payload_bytes})


def _bytes_field(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode()}


def read_records(files: IFileOperations, place: SegmentPlace, start: int, expand: bool, shown: int) -> Iterator[Record]:
    """Yield the entries that begin at or behind position ``start``, up to the file's end. Raises OSError.

    With ``expand``, the messages of a wrapper or batch follow it. At most ``shown`` bytes of a key or payload are kept.
    """
    file = files.open_for_reading(place.path)
    try:
        entries = Entries(file, file.size())
        limit = entries.size if place.end is None else min(place.end, entries.size)
        boundaries = read_boundaries(files, place.index_path, place.start, limit)
        evidence = Evidence(entries)
        near = boundaries.after(start - place.start)
        position = boundaries.positions[near - 1] if near else 0
        while position < entries.size:
            problem = entries.problem(position)
            end = entries.claimed_end(position)
            if problem:
                near = boundaries.after(position)
                anchor = boundaries.positions[near] if near < len(boundaries.positions) else place.end
                if anchor is not None and anchor <= position:
                    anchor = None
                resume = evidence.resume(position, anchor)
                end = entries.size if resume is None else min(resume.position, entries.size)
            if position + place.start >= start:
                yield from _records(entries, position, end, place.start, problem, expand, shown)
            position = end
    finally:
        file.close()


def _records(
    entries: Entries, position: int, end: int, start: int, problem: str, expand: bool, shown: int
) -> Iterator[Record]:
    here, following, size = start + position, start + end, end - position
    head = entries.read(position, LEAST_BYTES)
    magic = head[MAGIC_AT] if len(head) > MAGIC_AT else None
    if problem or magic == GAP:
        yield Record(here, following, magic, None, size, problem)
        return
    entry = entries.read(position, size)
    codec = codec_name(entry)
    mark = read_epoch_mark(entry)
    if mark is not None:
        yield Record(here, following, magic, codec, size, "", mark=mark)
        return
    if holds_several(entry):
        slices = decode_in_slices(entry, here) if expand else iter(())
        first = next((decoded for decoded in slices if decoded.messages or decoded.error is not None), None)
        wrong = first.error if first is not None else None
        note = wrong.reason if isinstance(wrong, CorruptMessage) else ""
        unopened = str(wrong) if isinstance(wrong, WrapperTooLarge) else ""
        payload_bytes = size - LAYOUTS[entry[MAGIC_AT]].head_bytes
        yield Record(here, following, magic, codec, size, note, payload_bytes=payload_bytes, unopened=unopened)
        for decoded in chain(() if first is None else (first,), slices):
            for message in decoded.messages:
                yield _of_message(message, magic, codec, 0, shown, inside=True)
        return
    for decoded in decode_in_slices(entry, here):
        for message in decoded.messages:
            yield _of_message(message, magic, codec, size, shown)


def codec_name(entry: bytes) -> str:
    """Return the name of the codec of an entry whose checksum matches; its number for one that is not known."""
    if entry[MAGIC_AT] == BATCH:
        number = batch_head(entry).codec
        return BATCH_CODEC_NAMES.get(number, str(number))
    return CODEC_NAMES[codec_at(entry)]


def _of_message(message: Message, magic: int | None, codec: str, size: int, shown: int, inside: bool = False) -> Record:
    key, payload = message.key, message.payload
    return Record(
        message.id,
        message.next_position,
        magic,
        codec,
        size,
        "",
        inside,
        message.timestamp,
        None if key is None else key[:shown],
        len(key or b""),
        len(message.headers),
        None if payload is None else payload[:shown],
        len(payload or b""),
    )
