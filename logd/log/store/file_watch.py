"""The periodic check that the segment files of all served partitions exist and have their full length.

An open descriptor hides the removal of a file, and an old segment may not be read for days. Without the check, such a
loss would be noticed at the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field, frozen

from logd.interfaces import IFileOperations, IThreads
from logd.log.disk.names import join, segment_name
from logd.log.offline_text import removed
from logd.log.partition import PartitionLog
from logd.log.recovery.lost_segments import LostRange, find_losses
from logd.log.segments import SegmentList


@frozen
class _Glance:
    """The state of one log when a check begins."""

    log: PartitionLog
    segments: SegmentList
    flushed_end: int


@frozen
class _Found:
    """A log with lost bytes: the losses, also as text, and whether the last segment's file is missing."""

    log: PartitionLog
    losses: tuple[LostRange, ...]
    text: str
    last_missing: bool


@define(eq=False)
class FileWatch:
    """Checks the files of all served logs, at the cost of one stat(2) per segment, on a thread. Owner thread only."""

    _files: IFileOperations
    _threads: IThreads
    _logs: Callable[[], Iterable[PartitionLog]]
    _looking: bool = field(init=False, default=False)

    def look(self) -> None:
        """Begin a check of every served log; do nothing while the previous check is under way."""
        if self._looking:
            return
        self._looking = True
        glances = [_Glance(log, log.segment_list, log.flushed_end) for log in self._logs() if log.offline is None]

        def done(found: list[_Found] | None, error: BaseException | None) -> None:
            self._looking = False
            self._note(glances, found or [])

        self._threads.run(lambda: [found for glance in glances if (found := self._find(glance))], done)

    def _find(self, glance: _Glance) -> _Found | None:
        sizes = []
        folder = glance.log.folder
        last = glance.segments.starts[-1]
        last_missing = False
        for start in glance.segments.starts:
            try:
                sizes.append((start, self._files.size(join(folder, segment_name(start)))))
            except FileNotFoundError:
                last_missing = start == last
            except OSError:
                return None  # the disk fails: reads and writes there report it
        losses = find_losses(sizes, glance.segments.starts[0], glance.flushed_end)
        if not losses and not last_missing:
            return None
        text = "; ".join(loss.describe(self._files, folder) for loss in losses)
        return _Found(glance.log, tuple(losses), text, last_missing)

    def _note(self, glances: list[_Glance], found: list[_Found]) -> None:
        by_log = {each.log: each for each in found}
        for glance in glances:
            log, each = glance.log, by_log.get(glance.log)
            if log.offline is not None:
                continue  # deleted or taken offline in the meantime
            last = glance.segments.starts[-1]
            if each is not None and each.last_missing and last >= log.start:  # else retention has removed it since
                log.go_offline(removed(join(log.folder, segment_name(last))))
            elif each is not None and any(loss.end > log.start for loss in each.losses):
                log.note_loss(each.text)
            else:  # no loss, or only files that retention has removed since
                log.note_loss("")
