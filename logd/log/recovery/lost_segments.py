"""Finds flushed bytes of a partition that its segment files do not have, by names and sizes alone.

    checkpoint.start ..... segments, each up to where the next one begins ..... the end that something vouches for

An end is vouched for by the checkpoint, by the mark, or by the coordination tree (``known_end``). Whatever of the range
before it lies in no file is lost: a segment that is missing or short. A log that ended there would give ids again that
readers have seen, so such a partition is not served before the file is back or `logd repair` has made gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from logd.errors import LogdError
from logd.interfaces import IFileOperations
from logd.log.disk.names import index_name, join, segment_name, segment_start
from logd.log.index.index_file import WrongIndex
from logd.log.index.index_search import last_boundary
from logd.log.recovery.checkpoint import Checkpoint, read_checkpoint
from logd.log.recovery.flush_mark import read_mark


@frozen
class LostRange:
    """Bytes ``[start, end)`` of a log that were flushed and that no file has."""

    start: int
    end: int
    #: Start of the segment that ends there, None when no file is left before the loss.
    before: int | None

    def describe(self, files: IFileOperations, folder: str) -> str:
        """Name the file that is missing or short. Reads an index, at most; never raises."""
        missing = join(folder, segment_name(self.start))
        lost = f"bytes {self.start} to {self.end} are lost" if self.start < self.end else "so is its log"
        if self.before is None:
            return f"{missing} is missing: {lost}"
        short = join(folder, segment_name(self.before))
        try:
            whole = last_boundary(files, join(folder, index_name(self.before)), self.before).position
        except (OSError, WrongIndex):
            whole = -1
        if whole < self.start:  # it is not that of a whole segment
            return f"{missing} is missing, or {short} has lost its end: {lost}"
        if whole == self.start:
            return f"{missing} is missing: {lost}"
        also = "" if whole >= self.end else f", and {join(folder, segment_name(whole))} is missing"
        return f"{short} has lost its end{also}: {lost}"


class BytesLost(LogdError):
    """Flushed bytes of a partition are in no file, so it is not served; nothing of it was changed."""

    def __init__(self, files: IFileOperations, folder: str, losses: Sequence[LostRange]) -> None:
        self.losses = tuple(losses)
        found = "; ".join(loss.describe(files, folder) for loss in losses)
        super().__init__(
            f"{folder} is not served, so that no id is given twice, and nothing in it was changed: {found}. Put the "
            "file back, if there is a copy, or let `logd repair` make gaps, which consumers skip and count, in the "
            "place of what is lost; then restart the broker, or run `logd repair --broker`, which serves it at once"
        )


def start_of_log(checkpoint: Checkpoint | None, unusable: bool, starts: Sequence[int], vouched: int) -> int:
    """Return where a log begins that has segment files at ``starts``, ascending.

    Retention writes a checkpoint before it removes anything. So a log that has none and is known to have been flushed
    (``vouched``, by the mark or the tree) begins at 0, and what is missing before its first file is lost. Two cases are
    left to the files: an ``unusable`` checkpoint, empty or damaged, may have followed a retention, and where nothing
    vouches a crash before the first sync may have taken the first file's name.
    """
    if checkpoint is not None:
        return checkpoint.start
    if vouched and not unusable:
        return 0
    return starts[0] if starts else 0


def find_losses(segments: Sequence[tuple[int, int]], log_start: int, known_end: int) -> list[LostRange]:
    """Return what is lost of ``[log_start, known_end)``; ``segments`` are the files' starts and sizes, ascending."""
    losses = []
    position = log_start
    before: int | None = None
    for number, (start, size) in enumerate(segments):
        if start >= known_end:
            break
        if start > position:
            losses.append(LostRange(position, start, before))
        end = start + size
        if number + 1 < len(segments):
            end = min(end, segments[number + 1][0])
        position, before = max(position, end), start
    if position < known_end:
        losses.append(LostRange(position, known_end, before))
    return losses


def highest_end(files: IFileOperations, folder: str) -> int:
    """Return the highest position that anything in a partition's folder tells of: checkpoint, mark, segment files.

    0 when there is nothing. What cannot be read counts as not there: never raises OSError. Blocks.
    """
    found = [0, read_mark(files, folder)]
    try:
        checkpoint = read_checkpoint(files, folder)
        found.append(checkpoint.flushed if checkpoint is not None else 0)
    except (OSError, ValueError):
        pass
    try:
        starts = [start for name in files.list(folder) if (start := segment_start(name)) is not None]
    except OSError:
        starts = []
    for start in starts:
        found.append(start)
        try:
            found.append(start + files.size(join(folder, segment_name(start))))
        except OSError:
            continue
    return max(found)
