"""Checks the segments of a path one after another and collects the findings, for verify and repair."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen

from logd.cli.terminal.byte_progress import BytesProgress
from logd.interfaces import IFileOperations
from logd.log.damage.data_directory import Contents, read_contents
from logd.log.damage.inspection import Remark, SegmentInspection, SegmentPlace
from logd.log.damage.kinds import Damage, DamageKind
from logd.plurals import counted
from logd.protocol.checksums import Checksums

_MEANINGS = {
    DamageKind.PAYLOAD: "a damaged entry",
    DamageKind.LENGTH: "a damaged length or head",
    DamageKind.SHORT: "missing bytes",
    DamageKind.UNVOUCHED: "damage without a known boundary where entries continue",
    DamageKind.TAIL: "a tail that is not known to be flushed",
    DamageKind.EXCESS: "bytes after the segment's end",
    DamageKind.MISSING: "a missing segment",
}


@frozen
class Finding:
    """One damage and its segment."""

    place: SegmentPlace
    damage: Damage

    @property
    def text(self) -> str:
        """The finding as one line of text."""
        damage = self.damage
        return (
            f"{self.place.path}: {_MEANINGS[damage.kind]} at file position {damage.position} "
            f"(id {self.place.start + damage.position}), {damage.size} bytes: {damage.reason}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the finding as a JSON object, with positions and sizes in bytes."""
        damage = self.damage
        return {
            "path": self.place.path,
            "position": damage.position,
            "id": self.place.start + damage.position,
            "bytes": damage.size,
            "kind": damage.kind.name.lower(),
            "reason": damage.reason,
            "wrong": damage.kind.is_wrong,
        }


@define
class Inspected:
    """The contents of a path, and the findings in it."""

    contents: Contents
    findings: list[Finding] = field(factory=list)
    remarks: list[Remark] = field(factory=list)
    segments: int = 0
    bytes: int = 0
    entries: int = 0
    gaps: int = 0
    gap_bytes: int = 0

    @property
    def is_sound(self) -> bool:
        """True when nothing is wrong."""
        return not any(finding.damage.kind.is_wrong for finding in self.findings) and not any(
            remark.wrong for remark in self.remarks
        )

    @property
    def summary(self) -> str:
        """The counts as one line of text."""
        gaps = f", {counted(self.gaps, 'gap')} of {counted(self.gap_bytes, 'byte')}" if self.gaps else ""
        return (
            f"{counted(self.contents.partitions, 'partition')}, {counted(self.segments, 'segment')}, "
            f"{counted(self.bytes, 'byte')}, {counted(self.entries, 'entry', 'entries')}{gaps}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {
            "sound": self.is_sound,
            "partitions": self.contents.partitions,
            **{name: getattr(self, name) for name in ("segments", "bytes", "entries", "gaps", "gap_bytes")},
            "findings": [finding.to_json() for finding in self.findings],
            "remarks": [{"path": r.path, "text": r.text, "wrong": r.wrong} for r in self.remarks],
        }


def inspect(
    files: IFileOperations,
    path: str,
    checksums: Checksums,
    what: str,
    quiet: bool,
    ended: Callable[[SegmentInspection], None] = lambda inspection: None,
) -> Inspected:
    """Check everything in ``path``; ``ended`` is called with each segment's inspection before it is closed.

    Raises OSError, DataDirectoryError.
    """
    contents = read_contents(files, os.path.abspath(path))
    found = Inspected(contents, remarks=list(contents.remarks))
    found.findings += [Finding(missing.place, missing.damage) for missing in contents.missing]
    sizes = [_size(files, place) for place in contents.segments]
    done = 0
    with BytesProgress(what, sum(sizes), quiet) as progress:
        for place, size in zip(contents.segments, sizes, strict=True):
            try:
                inspection = SegmentInspection.open(files, place, checksums)
            except FileNotFoundError:
                continue  # deleted meanwhile, by retention or with its topic
            with inspection:
                for position in inspection.run():
                    progress.reach(done + position)
                _add(found, inspection)
                ended(inspection)
            done += size
    return found


def _size(files: IFileOperations, place: SegmentPlace) -> int:
    try:
        return files.size(place.path)
    except FileNotFoundError:
        return 0


def _add(found: Inspected, inspection: SegmentInspection) -> None:
    walk = inspection.walk
    found.segments += 1
    found.bytes += walk.size
    found.entries += walk.entries
    found.gaps += walk.gaps
    found.gap_bytes += walk.gap_bytes
    found.findings += [Finding(inspection.place, damage) for damage in inspection.damages]
    found.remarks += inspection.index_remarks()
