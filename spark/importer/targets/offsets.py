"""``_offsets.json``: what one run loaded, and the positions that the target has reached with it.

A position is the id of the first message that is not loaded yet, as everywhere in logd. Positions belong to a topic's
uuid, not to its name: a topic that was created again begins another lineage. ``positions`` has those of all runs, so
that planning reads one file however many runs there are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from attrs import asdict, frozen

from logd.spark.importer.errors import TargetError

#: The format that new targets have, and that of new targets whose values have types.
FORMAT = 2
TYPED_FORMAT = 3


@frozen
class PlaceColumns:
    """The names, in the files of a target, of the columns for a message's id and for the position after it."""

    id: str
    next_position: str


#: The columns of each format. A target keeps the columns of its first run: in format 1 ``offset`` was the id.
PLACE_COLUMNS = {1: PlaceColumns("offset", "next_offset"), 2: PlaceColumns("id", "next_position")}
PLACE_COLUMNS[TYPED_FORMAT] = PLACE_COLUMNS[FORMAT]

_COUNTS = ("start", "end", "messages", "bytes", "quarantined")


class Lineage(NamedTuple):
    """One partition of one topic; the uuid distinguishes it from another topic of the same name."""

    topic: str
    uuid: str
    partition: int

    def __str__(self) -> str:
        return f"topic {self.topic!r} ({self.uuid}), partition {self.partition}"


@frozen
class Loaded:
    """A range of one partition that a run loaded: ids from ``start`` up to ``end``.

    ``bytes`` is the part of the ``end - start`` bytes of log that messages take; the rest are gaps in the log. In a
    compressed set each message but the last may count as one byte.
    """

    lineage: Lineage
    start: int
    end: int
    messages: int
    bytes: int
    #: Those of the messages that cannot be decoded, and are in the run's quarantine.
    quarantined: int = 0

    @property
    def gap_bytes(self) -> int:
        """The bytes of the range that hold no message."""
        return self.end - self.start - self.bytes


@frozen
class Lost:
    """Messages between two ids that were lost before they could be loaded; an ``end`` of -1: not known.

    The target continues at ``end``, which is below ``start`` if the log ended before the target's position. The number
    of lost messages is unknown: a log that was lost begins again far above the last id that it gave.
    """

    lineage: Lineage
    start: int
    end: int
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the loss as plain JSON types."""
        return _flat(self)


@frozen
class MergedRun:
    """A run that a compaction merged into another; ``bytes`` are of log, ``began_ms`` is in ms since 1970."""

    run: int
    uuid: str
    began_ms: int
    messages: int
    bytes: int

    @classmethod
    def of(cls, offsets: RunOffsets) -> MergedRun:
        """Return what is kept of a run."""
        return cls(offsets.run, offsets.uuid, offsets.began_ms, offsets.messages, offsets.size)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> MergedRun:
        """Read one from JSON types; raises KeyError and others for damaged ones."""
        numbers = (int(value[name]) for name in ("began_ms", "messages", "bytes"))
        return cls(int(value["run"]), str(value["uuid"]), *numbers)


@frozen
class RunOffsets:
    """The whole file. ``uuid`` is the run's own; ``began_ms`` is the import's time, used where a message has none."""

    run: int
    uuid: str
    previous_uuid: str
    began_ms: int
    #: The file format and codec of the data, and the columns that became folders.
    data: Mapping[str, Any]
    loaded: tuple[Loaded, ...]
    lost: tuple[Lost, ...]
    positions: Mapping[Lineage, int]
    #: The format of the file, and so the columns of the data beside it.
    format: int = FORMAT
    #: The runs that a compaction merged into this one, in their order; the last of them had this one's number.
    merged: tuple[MergedRun, ...] = ()
    #: Ranges of the past that a backfill loaded: below the positions, and in no other run.
    backfilled: tuple[Loaded, ...] = ()

    @property
    def first_run(self) -> int:
        """The number of the first run that is merged into this one, or this one's own."""
        return self.merged[0].run if self.merged else self.run

    @property
    def messages(self) -> int:
        """The number of messages that the run loaded."""
        return sum(each.messages for each in (*self.loaded, *self.backfilled))

    @property
    def quarantined(self) -> int:
        """The number of those that cannot be decoded."""
        return sum(each.quarantined for each in (*self.loaded, *self.backfilled))

    @property
    def size(self) -> int:
        """The bytes of log of these messages."""
        return sum(each.bytes for each in (*self.loaded, *self.backfilled))

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        value = {
            "format": self.format,
            "run": self.run,
            "uuid": self.uuid,
            "previous_uuid": self.previous_uuid,
            "began_ms": self.began_ms,
            "data": dict(self.data),
            "messages": self.messages,
            "bytes": self.size,
            "partitions": [_flat(each) for each in self.loaded],
            **({"backfilled": [_flat(each) for each in self.backfilled]} if self.backfilled else {}),
            "lost": [_flat(each) for each in self.lost],
            "positions": [
                {**lineage._asdict(), "position": position} for lineage, position in sorted(self.positions.items())
            ],
            **({"merged": [asdict(each) for each in self.merged]} if self.merged else {}),
        }
        return json.dumps(value, indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> RunOffsets:
        """Read a file's content. Raises TargetError that names ``where`` for content of no known format."""
        try:
            value = json.loads(content)
            if value["format"] not in PLACE_COLUMNS:
                raise TargetError(
                    f"{where} has format {value['format']!r}, and this release knows formats up to "
                    f"{max(PLACE_COLUMNS)}: use a later release"
                )
            offsets = cls(
                run=int(value["run"]),
                uuid=str(value["uuid"]),
                previous_uuid=str(value["previous_uuid"]),
                began_ms=int(value["began_ms"]),
                data=dict(value["data"]),
                loaded=tuple(_loaded(each) for each in value["partitions"]),
                lost=tuple(
                    Lost(_lineage(each), int(each["start"]), int(each["end"]), str(each["reason"]))
                    for each in value["lost"]
                ),
                positions={_lineage(each): int(each["position"]) for each in value["positions"]},
                format=int(value["format"]),
                merged=tuple(MergedRun.from_json(each) for each in value.get("merged", ())),
                backfilled=tuple(_loaded(each) for each in value.get("backfilled", ())),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TargetError(f"{where} is damaged, or is not of logd import: {error!r}") from None
        if (offsets.messages, offsets.size) != (value.get("messages"), value.get("bytes")):
            raise TargetError(f"{where} is damaged: its counts are not the sums of its partitions")
        return offsets


def _flat(each: Loaded | Lost) -> dict[str, Any]:
    fields = asdict(each, recurse=False)
    lineage: Lineage = fields.pop("lineage")
    if not fields.get("quarantined", True):
        del fields["quarantined"]  # as in the files of earlier releases
    return {**lineage._asdict(), **fields}


def _loaded(value: Mapping[str, Any]) -> Loaded:
    return Loaded(
        _lineage(value), *(int(value.get(name, 0) if name == "quarantined" else value[name]) for name in _COUNTS)
    )


def _lineage(value: Mapping[str, Any]) -> Lineage:
    return Lineage(str(value["topic"]), str(value["uuid"]), int(value["partition"]))
