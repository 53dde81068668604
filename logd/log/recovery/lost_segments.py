"""The search for lost bytes of a partition: flushed, but in no segment file. It uses file names and sizes alone.

    checkpoint.start ..... segments, each up to where the next one begins ..... the end that something vouches for

The checkpoint, the mark or the coordination tree (``known_end``) vouches for an end. Bytes before it that are in no
file are lost: a segment is missing or short. A log that ended there would assign ids again that readers have seen. So
such a partition is not served until the file is restored or `logd repair` has made gaps.
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
    """Flushed bytes ``[start, end)`` of a log that are in no file."""

    start: int
    end: int
    #: Start of the segment before the loss, None if there is none.
    before: int | None

    def describe(self, files: IFileOperations, folder: str) -> str:
        """Return a text that names the missing or short file. Reads one index at most; never raises."""
        missing = join(folder, segment_name(self.start))
        lost = f"bytes {self.start} to {self.end} are lost" if self.start < self.end else "so is its log"
        if self.before is None:
            return f"{missing} is missing: {lost}"
        short = join(folder, segment_name(self.before))
        try:
            whole = last_boundary(files, join(folder, index_name(self.before)), self.before).position
        except (OSError, WrongIndex):
            whole = -1
        if whole < self.start:  # the index does not reach the segment's end
            return f"{missing} is missing, or {short} has lost its end: {lost}"
        if whole == self.start:
            return f"{missing} is missing: {lost}"
        also = "" if whole >= self.end else f", and {join(folder, segment_name(whole))} is missing"
        return f"{short} has lost its end{also}: {lost}"


class BytesLost(LogdError):
    """Flushed bytes of a partition are in no file, so it is not served. Its files were not changed."""

    def __init__(self, files: IFileOperations, folder: str, losses: Sequence[LostRange]) -> None:
        self.losses = tuple(losses)
        found = "; ".join(loss.describe(files, folder) for loss in losses)
        super().__init__(
            f"{folder} is not served, so that no id is given twice, and nothing in it was changed: {found}. Put the "
            "file back, if there is a copy, or run `logd repair`, which fills what is lost with gaps that consumers "
            "skip and count; then restart the broker. Or run `logd repair --broker`, which serves it again at once"
        )


def start_of_log(checkpoint: Checkpoint | None, unusable: bool, starts: Sequence[int], vouched: int) -> int:
    """Return the start of a log with segment files at ``starts``, ascending.

    Retention writes a checkpoint before it removes anything. So a log without one that was flushed (``vouched``, by the
    mark or the tree) begins at 0, and everything missing before its first file is lost. In two cases the first file
    decides: retention may have run before the checkpoint became ``unusable`` (empty or damaged), and if nothing
    vouches, a crash before the first sync may have lost the first file's name.
    """
    if checkpoint is not None:
        return checkpoint.start
    if vouched and not unusable:
        return 0
    return starts[0] if starts else 0


def find_losses(segments: Sequence[tuple[int, int]], log_start: int, known_end: int) -> list[LostRange]:
    """Return the lost parts of ``[log_start, known_end)``; ``segments`` are the files' (start, size), ascending."""
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
    """Return the highest end recorded in a partition's folder: by checkpoint, mark or segment files. 0 for none.

    Files that cannot be read are ignored: never raises OSError. Blocks.
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
