"""The inspection of a partition's folder from outside: no lock is taken and nothing is changed.

Up to the checkpoint, or the mark if that is greater, everything was flushed and has to be sound. The bytes behind it
may be from an append under way, or left by a crash. They are checked too, and reported separately.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from attrs import define, evolve, field, frozen

from logd.interfaces import IFile, IFileOperations
from logd.log.damage.entries import Readable, contents_problem
from logd.log.damage.kinds import Damage, DamageKind
from logd.log.damage.uncached_file import UncachedFile
from logd.log.damage.walk import SegmentWalk
from logd.log.disk.names import (
    CHECKPOINT,
    DROPPED_SUFFIX,
    EPOCHS,
    EPOCHS_COPY,
    MARK,
    PRODUCERS,
    TEMPORARY_SUFFIX,
    index_name,
    index_start,
    is_kept_entry,
    join,
    segment_name,
    segment_start,
)
from logd.log.index.boundaries import Boundaries, read_boundaries
from logd.log.recovery.checkpoint import Checkpoint, EmptyCheckpoint, read_checkpoint
from logd.log.recovery.flush_mark import read_mark
from logd.log.recovery.lost_segments import find_losses, start_of_log
from logd.protocol.checksums import Checksums


@frozen
class Remark:
    """A remark on a file, other than on damaged entries. Not ``wrong`` if it is for information only."""

    path: str
    text: str
    wrong: bool


@frozen
class SegmentPlace:
    """One segment's file: its start in the log, and the file position up to which it is flushed (None: not known)."""

    folder: str
    start: int
    end: int | None
    #: True: another segment follows.
    closed: bool
    #: The files that are missing or short, as text, if flushed bytes at this segment's end are lost; otherwise empty.
    loss: str = ""

    @property
    def path(self) -> str:
        """The segment's file."""
        return join(self.folder, segment_name(self.start))

    @property
    def index_path(self) -> str:
        """The file of its index."""
        return join(self.folder, index_name(self.start))

    @classmethod
    def of_log(cls, folder: str, start: int, following: int | None, flushed: int | None) -> SegmentPlace:
        """Describe a segment; ``following`` is the next one's start, ``flushed`` the log's flushed end."""
        end: int | None
        if flushed is None:
            end = None if following is None else following - start
        else:
            end = max(0, min(flushed, flushed if following is None else following) - start)
        return cls(folder, start, end, following is not None and (flushed is None or following <= flushed))


@frozen
class MissingSegments:
    """Flushed bytes at a log's beginning, or all of the log, that are in no file."""

    #: The segment to make, since there is none to lengthen.
    place: SegmentPlace
    damage: Damage


@define
class PartitionPlaces:
    """The segments of a partition, ascending, and remarks on the other files in its folder."""

    checkpoint: Checkpoint | None = None
    segments: list[SegmentPlace] = field(factory=list)
    missing: MissingSegments | None = None
    remarks: list[Remark] = field(factory=list)

    @property
    def has_losses(self) -> bool:
        """Return whether flushed bytes are in no file."""
        return self.missing is not None or any(place.loss for place in self.segments)


def read_places(files: IFileOperations, folder: str) -> PartitionPlaces:
    """Return the segments in ``folder``, with remarks; raises OSError."""
    found = _look(files, folder)
    # Retention may have removed files in the meantime, so only bytes that are missing both times count as lost.
    return _look(files, folder) if found.has_losses else found


def _look(files: IFileOperations, folder: str) -> PartitionPlaces:
    found = PartitionPlaces()
    remark = found.remarks.append
    path = join(folder, CHECKPOINT)
    unusable = False
    # Read before the names, so that a segment that is rolled in between lies behind the flushed end.
    mark = read_mark(files, folder)
    try:
        found.checkpoint = read_checkpoint(files, folder)
    except EmptyCheckpoint as error:
        unusable = True
        remark(Remark(path, f"is of no use ({error}): the next start checks more than usual", False))
    except ValueError as error:
        unusable = True
        remark(Remark(path, f"is damaged ({error}): the next start checks more than usual", True))
    names = files.list(folder)
    starts = sorted(start for start in map(segment_start, names) if start is not None)
    for name in names:
        if segment_start(name) is None:
            found.remarks += _name_remarks(folder, name, starts)
    flushed = mark or None
    if found.checkpoint is not None:
        flushed = max(found.checkpoint.flushed, mark)
        # Expired segments whose files are not removed yet are no part of the log.
        while len(starts) > 1 and starts[1] <= found.checkpoint.start:
            starts.pop(0)
        if starts and starts[0] > found.checkpoint.start and found.checkpoint.flushed == found.checkpoint.start:
            text = f"begins at {starts[0]}, but the checkpoint says {found.checkpoint.start}; nothing was flushed"
            remark(Remark(folder, text, False))
    elif starts and not unusable:
        remark(Remark(path, "is missing: the next start checks more than usual", False))
    found.segments = [
        SegmentPlace.of_log(folder, start, following, flushed) for start, following in zip_longest(starts, starts[1:])
    ]
    if flushed is not None:
        _note_losses(files, folder, found, start_of_log(found.checkpoint, unusable, starts, mark), flushed)
    return found


def _note_losses(files: IFileOperations, folder: str, found: PartitionPlaces, log_start: int, flushed: int) -> None:
    """Record the flushed bytes that are in no file: at a segment's end, or before the first segment."""
    sizes = []
    for place in found.segments:
        try:
            sizes.append((place.start, files.size(place.path)))
        except FileNotFoundError:
            continue  # removed just now, or a link to nothing
    losses = {loss.before: loss for loss in find_losses(sizes, log_start, flushed)}
    for number, place in enumerate(found.segments):
        if place.start in losses:
            found.segments[number] = evolve(place, loss=losses[place.start].describe(files, folder))
    first = losses.get(None)
    if first is not None:
        size = first.end - first.start
        damage = Damage(0, size, DamageKind.MISSING, first.describe(files, folder))
        place = SegmentPlace(folder, first.start, size, bool(sizes))
        found.missing = MissingSegments(place, damage)


def _name_remarks(folder: str, name: str, starts: list[int]) -> list[Remark]:
    path = join(folder, name)
    start = index_start(name)
    if name in (CHECKPOINT, EPOCHS, EPOCHS_COPY, MARK, PRODUCERS) or start in starts:
        return []
    if start is not None:
        return [Remark(path, "is an index without a segment; the next start removes it", False)]
    if name.endswith(TEMPORARY_SUFFIX):
        return [Remark(path, "is from an unfinished write, or from one in progress", False)]
    if name.endswith(DROPPED_SUFFIX):
        if is_kept_entry(name):
            return [Remark(path, "is an entry that a repair could not read, kept for examination", False)]
        return [Remark(path, "is a segment that a start set aside, kept for examination", True)]
    return [Remark(path, "does not belong to logd", False)]


@define(eq=False)
class SegmentInspection:
    """The inspection of one segment: iterate ``run`` first. A context manager, or ``close`` it."""

    place: SegmentPlace
    file: IFile
    walk: SegmentWalk
    boundaries: Boundaries
    damages: list[Damage] = field(factory=list)

    @classmethod
    def open(
        cls,
        files: IFileOperations,
        place: SegmentPlace,
        checksums: Checksums,
        writable: bool = False,
        with_tail: bool = True,
        readable: Readable | None = contents_problem,
        uncached: bool = False,
    ) -> SegmentInspection:
        """Open the segment and read its index; without the tail nothing behind ``place.end`` is checked.

        With ``uncached``, the bytes come from the disk, and not from the page cache. Raises OSError.
        """
        file = files.open(place.path) if writable else files.open_for_reading(place.path)
        try:
            size = file.size()
            end = size if place.end is None else min(place.end, size)
            size = size if with_tail else end
            boundaries = read_boundaries(files, place.index_path, place.start, end if place.end is not None else 0)
            walk = SegmentWalk(
                UncachedFile(file) if uncached else file, size, place.end, place.closed, boundaries, checksums, readable
            )
        except BaseException:
            file.close()
            raise
        return cls(place, file, walk, boundaries)

    def run(self) -> Iterator[int]:
        """Check every entry; yield the file position reached, now and then. Raises OSError."""
        for damage in self.walk.run():
            if damage is not None:
                known = damage.kind is DamageKind.SHORT and self.place.loss
                self.damages.append(evolve(damage, reason=self.place.loss) if known else damage)
            yield self.walk.position

    def index_remarks(self) -> list[Remark]:
        """Return the remarks on the index, once ``run`` has finished."""
        path = self.place.index_path
        found = self.boundaries
        closed = self.place.closed
        if self.walk.misplaced >= 0:
            return [Remark(path, f"is wrong: no entry begins at {self.walk.misplaced + self.place.start}", True)]
        if found.problem:
            # The index of the last segment may be half written at this moment.
            return [Remark(path, f"is damaged: {found.problem}; it is rebuilt when it is needed", closed)]
        if closed and (found.missing or found.last != self.place.end):
            what = "is missing" if found.missing else "does not reach its segment's end"
            return [Remark(path, f"{what}; it is rebuilt when it is needed", False)]
        return []

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def __enter__(self) -> SegmentInspection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
