"""The recovery of a partition's folder at a start: a torn tail is cut off, and flushed bytes are never touched.

All bytes up to the checkpoint, or the mark if that is greater, were flushed and are not checked. After a clean stop
that is the whole log, and nothing is read. Damage there is bit rot: readers find it, and a repair makes a gap of it.
Behind that position every entry is checked as it is on the disk, not in the page cache, which after a failed fdatasync
may hold bytes that never reached the disk. The tail from the first unsound entry on was torn by a crash and is cut off.
The rest is synced before it becomes visible. A crash at any step is followed by another recovery.

If flushed bytes are in no file, nothing is changed and the partition is not served (lost_segments.py). Its end is never
set below a vouched position, since ids would be given again.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logd.config import LogSettings
from logd.interfaces import IFileOperations
from logd.log.disk.errors import NO_ROOM
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
    join,
    segment_name,
    segment_start,
)
from logd.log.index.index import ActiveIndex, load_active_index
from logd.log.index.index_file import CHUNK, WrongIndex
from logd.log.recovery.checkpoint import Checkpoint, EmptyCheckpoint, read_checkpoint, write_checkpoint
from logd.log.recovery.flush_mark import read_mark
from logd.log.recovery.lost_segments import BytesLost, LostRange, find_losses, start_of_log
from logd.log.scan import Scan, scan_entries
from logd.log.segments import Segment, SegmentList
from logd.log.writer import SegmentWriter, create_segment

Report = Callable[..., None]

#: The files of a partition's folder beside its segments and their indexes.
_KNOWN = (CHECKPOINT, EPOCHS, EPOCHS_COPY, MARK, PRODUCERS)


@define(eq=False)
class Recovered:
    """A recovered partition, sound and durable up to ``writer.end``."""

    #: Position of the first byte, and the first position that may be read.
    start: int
    first: int
    segments: SegmentList
    writer: SegmentWriter
    #: The checkpoint on the disk.
    checkpoint: Checkpoint | None


def recover_partition(
    files: IFileOperations,
    folder: str,
    settings: LogSettings,
    now: float,
    report: Report,
    known_end: int | None = None,
) -> Recovered:
    """Recover a partition's folder and return its contents. Blocks.

    ``known_end`` is a position up to which the log was flushed according to another source. With one, even 0, a folder
    without any segment is a loss too. Raises BytesLost if flushed bytes are in no file, and OSError if a file cannot be
    read; then nothing was truncated, renamed or removed.
    """
    return _Recovery(files, folder, settings, now, report, known_end).run()


@define(eq=False)
class _Recovery:
    files: IFileOperations
    folder: str
    settings: LogSettings
    now: float
    report: Report
    known_end: int | None = None
    names: list[str] = field(factory=list)
    starts: list[int] = field(factory=list)
    #: Sizes of the segment files at the beginning.
    sizes: dict[int, int] = field(factory=dict)
    checkpoint: Checkpoint | None = None
    #: The checkpoint's file cannot be read.
    damaged: bool = False
    mark: int = 0
    #: The log's start, and the position up to which the checkpoint or the mark vouches for it.
    start: int = 0
    sound: int = 0
    #: Bytes were found behind the checkpoint, so names and bytes may not be durable yet.
    unclean: bool = False

    def run(self) -> Recovered:
        self._read_folder()
        self._read_checkpoint()
        self._check_losses()
        self._remove_leftovers()
        self._drop_expired()
        if self.starts and self.starts[0] > self.start:
            # A crash can cause this before the partition's first flush: the name of its second segment was synced, and
            # that of the first was not.
            self.report(
                "{folder} begins at {found} and not at {start}: what was there had not been flushed",
                folder=self.folder,
                found=self.starts[0],
                start=self.start,
            )
            self.start, self.sound = self.starts[0], max(self.sound, self.starts[0])
        writer = None
        for number, start in enumerate(self.starts):
            following = self.starts[number + 1] if number + 1 < len(self.starts) else None
            if following is not None and self._is_vouched_for(start, following):
                continue
            checked, scan = self._make_sound(start, following)
            if following is None or start + scan.end < following:
                self._drop_segments(number + 1)
                writer = self._writer(start, checked, scan)
                break
        if writer is None:
            # There is no file, and the log was empty after the last retention.
            writer = create_segment(self.files, self.folder, self.sound, self.now)
            writer.configure(self.settings)
            self.starts = [self.sound]
            self.start = self.sound
            self.unclean = True
        try:
            return self._recovered(writer)
        except OSError:
            writer.close()
            raise

    def _recovered(self, writer: SegmentWriter) -> Recovered:
        """Make the recovered files durable, and return them."""
        first = self.start
        if self.checkpoint is not None and self.checkpoint.start == self.start:
            first = self.checkpoint.first
        checkpoint = Checkpoint(self.start, writer.end, first)
        if self.unclean:
            # A broker that was killed may have left names that are not synced.
            self.files.sync_directory(self.folder)
        # An empty log needs no checkpoint: thousands of empty logs would cost thousands of syncs.
        if self.damaged or checkpoint != (self.checkpoint or Checkpoint(0, 0)):
            self._write_checkpoint(checkpoint)
        segments = [
            Segment(start, self.files.modified(self._path(start))) for start in self.starts if start < self.starts[-1]
        ]
        return Recovered(self.start, first, SegmentList.of([*segments, writer.segment]), writer, self.checkpoint)

    def _write_checkpoint(self, checkpoint: Checkpoint) -> None:
        try:
            write_checkpoint(self.files, self.folder, checkpoint)
        except OSError as error:
            # On a full disk the old checkpoint remains valid for now.
            if error.errno not in NO_ROOM:
                raise
            self.report("cannot write the checkpoint of {folder}: {error}", folder=self.folder, error=error)
        else:
            self.checkpoint = checkpoint

    def _path(self, start: int) -> str:
        return join(self.folder, segment_name(start))

    def _read_folder(self) -> None:
        self.names = self.files.list(self.folder)
        self.starts = sorted(start for start in map(segment_start, self.names) if start is not None)

    def _check_losses(self) -> None:
        self.sizes = {start: self.files.size(self._path(start)) for start in self.starts}
        losses = find_losses([*self.sizes.items()], self.start, self.sound)
        if not losses and not self.starts and self.known_end is not None:
            losses = [LostRange(self.start, self.sound, None)]  # of no bytes, perhaps; but a log was here
        if losses:
            raise BytesLost(self.files, self.folder, losses)

    def _remove_leftovers(self) -> None:
        known = set(self.starts)
        for name in self.names:
            start = index_start(name)
            if start is not None:
                if start not in known:
                    # Of a segment that a crash took. It must not come back beside another one that begins there.
                    self.files.remove(join(self.folder, name))
                    self.unclean = True
            elif name.endswith(TEMPORARY_SUFFIX) and not self.files.is_directory(join(self.folder, name)):
                self.files.remove(join(self.folder, name))  # a crash left it of a replacement, or of a truncation
                self.unclean = True
            elif segment_start(name) is None and name not in _KNOWN and not name.endswith(DROPPED_SUFFIX):
                self.report("{path} is not a file of logd; it is left alone", path=join(self.folder, name))

    def _read_checkpoint(self) -> None:
        self.mark = read_mark(self.files, self.folder)
        wrong, unusable = "is missing", False
        try:
            self.checkpoint = read_checkpoint(self.files, self.folder)
        except EmptyCheckpoint:
            wrong, unusable = "was emptied on a full disk", True
        except ValueError:
            wrong, unusable = "is damaged", True
        self.damaged = unusable
        vouched = max(self.mark, self.known_end or 0)
        self.start = start_of_log(self.checkpoint, unusable, self.starts, vouched)
        if self.checkpoint is not None:
            self.sound = max(self.checkpoint.flushed, vouched)
            return
        self.sound = max(self.start, vouched)
        if self.starts and (len(self.starts) > 1 or self.files.size(self._path(self.starts[0]))):
            self.report(
                "the checkpoint of {folder} {wrong}: {what} is checked",
                folder=self.folder,
                wrong=wrong,
                what=f"the log from the mark at {self.sound} on" if self.sound > self.start else "all of it",
            )

    def _drop_expired(self) -> None:
        """Remove the files of segments before the checkpoint's start, which retention had not removed yet."""
        while self.starts and self.starts[0] < self.start:
            start = self.starts[0]
            end = start + self.sizes[start]
            if len(self.starts) > 1:
                end = min(end, self.starts[1])
            if end > self.start:
                break
            if not self.unclean:
                # The checkpoint's own name must be durable before the files before its start are removed: a broker
                # that was killed may have renamed it without a sync.
                self.files.sync_directory(self.folder)
                self.unclean = True
            self._remove(start)
            del self.starts[0]

    def _is_vouched_for(self, start: int, following: int) -> bool:
        """Return whether a segment needs no check: it lies before the flushed end and has its full length."""
        if following > self.sound:
            return False
        size = self.sizes[start]
        if size > following - start:
            self.report("{path} is longer than it should be; the rest is cut", path=self._path(start))
            self._cut(start, following)
        return size >= following - start

    def _make_sound(self, start: int, following: int | None) -> tuple[int, Scan]:
        """Check the entries behind the flushed end, cut off an unsound tail, and sync the rest.

        Return the file position where the check began, and its result.
        """
        path = self._path(start)
        size = self.files.size(path)
        if following is None and start + size == self.sound and not self.unclean:
            return size, Scan(size)
        self.unclean = True
        modified = self.files.modified(path)
        file = self.files.open(path)
        try:
            file.drop_cache()
            size = file.size()
            limit = size if following is None else min(size, following - start)
            checked = max(0, self.sound - start)
            scan = scan_entries(file, checked, limit, self.settings.index_bytes)
            if scan.end < size:
                self.report(
                    "{path}: cut {count} bytes behind position {end}: {problem}",
                    path=path,
                    count=size - scan.end,
                    end=start + scan.end,
                    problem=scan.problem or "the next segment begins there",
                )
                file.truncate(scan.end)
            file.sync_data()
        finally:
            file.close()
        self.files.set_modified(path, modified)
        return checked, scan

    def _cut(self, start: int, end: int) -> None:
        path = self._path(start)
        modified = self.files.modified(path)
        file = self.files.open(path)
        try:
            file.truncate(end - start)  # not synced: bytes that reappear after a crash are cut off again
        finally:
            file.close()
        self.files.set_modified(path, modified)

    def _drop_segments(self, number: int) -> None:
        """Give up the segments from ``number`` on, because the bytes before them are missing."""
        for start in reversed(self.starts[number:]):
            path = self._path(start)
            if self.checkpoint is None and not self.mark:
                # Without both nothing tells what was flushed, so only a person may delete the segment.
                self.report("{path} cannot be served: what it follows is lost. It is kept aside", path=path)
                self.files.rename(path, path + DROPPED_SUFFIX)
                self._remove_index(start)
            else:
                self.report("{path} is removed: what it follows was not flushed, so nor was it", path=path)
                self._remove(start)
        del self.starts[number:]

    def _remove(self, start: int) -> None:
        self.files.remove(self._path(start))
        self._remove_index(start)

    def _remove_index(self, start: int) -> None:
        path = join(self.folder, index_name(start))
        if self.files.exists(path):
            self.files.remove(path)

    def _writer(self, start: int, checked: int, scan: Scan) -> SegmentWriter:
        """Return a writer for the last segment, with its index; ``scan`` began at file position ``checked``."""
        path = self._path(start)
        modified = self.files.modified(path)
        modified_ms = int(modified * 1000)  # stands in for the times of the appends
        index, whole = self._index(start, min(start + checked, self.sound))
        position, highest_ms = start, -1
        if index.tail:
            position, _, highest_ms = index.tail[-1]
        if position < start + checked:
            file = self.files.open_for_reading(path)
            try:
                known = scan_entries(file, position - start, checked, self.settings.index_bytes, highest_ms)
            finally:
                file.close()
            highest_ms = known.highest_ms
            for boundary, highest in known.boundaries:
                index.note(start + boundary, modified_ms, highest)
            if known.problem:
                self.report(
                    "{path} is damaged at {position}: {problem}",
                    path=path,
                    position=start + known.end,
                    problem=known.problem,
                )
        for boundary, highest in scan.boundaries:
            index.note(start + boundary, modified_ms, max(highest, highest_ms))
        if not whole:
            index.cut()
        writer = SegmentWriter(
            self.files,
            self.folder,
            Segment(start, modified),
            index,
            start + scan.end,
            max(highest_ms, scan.highest_ms),
        )
        writer.configure(self.settings)
        return writer

    def _index(self, start: int, sound: int) -> tuple[ActiveIndex, bool]:
        """Return the valid part of the last segment's index, and whether the file has nothing else."""
        path = join(self.folder, index_name(start))
        try:
            if self.files.exists(path):
                index, left_out = load_active_index(self.files, path, start, sound)
                return index, not left_out
            if sound - start >= self._least_with_index() and self._is_clean():
                self.report("{path} is missing: it is rebuilt", path=path)
        except WrongIndex as error:
            self.report("{path} cannot be used ({error}): it is rebuilt", path=path, error=error)
            return ActiveIndex(self.files, path, start), False
        except OSError as error:
            # No partition is taken offline for its index. But a file that cannot be read now must not be trusted later.
            if self.files.is_directory(path):
                self.report("{path} is a folder in place of an index: appends go on without an index", path=path)
                return ActiveIndex(self.files, path, start, broken=True), True
            self.report("{path} cannot be read ({error}): it is removed and rebuilt", path=path, error=error)
            self.files.remove(path)
            self.files.sync_directory(self.folder)
        return ActiveIndex(self.files, path, start), True

    def _is_clean(self) -> bool:
        """Return whether the log ends where it was flushed, as it does after a clean stop."""
        return self.checkpoint is not None and self.checkpoint.flushed == self.sound and not self.unclean

    def _least_with_index(self) -> int:
        """Return the bytes of a segment that has an index file, however the segment was written.

        The file is written when a chunk is full, and at a clean stop. A broker that was killed while it was idle leaves
        what a clean stop does, but for that file. An append has one boundary, and is seldom larger than a batch may be.
        """
        settings = self.settings
        return CHUNK * (settings.index_bytes + max(settings.message_bytes, settings.batch_bytes))
