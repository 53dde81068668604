"""The sparse index of the segment that is appended to: a tail in memory, earlier boundaries in the index file."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter

from attrs import define, field

from logd.interfaces import IFile, IFileOperations
from logd.log.index.index_file import (
    CHUNK,
    Boundary,
    IndexFile,
    WrongIndex,
    chunk_position,
    encode_chunk,
    encode_header,
)

_POSITION = attrgetter("position")


@define(eq=False)
class ActiveIndex:
    """The boundaries of one segment while it grows.

    The owner thread writes. Other threads may read ``tail`` and then ``chunks``, in that order, at any time: a tail is
    only appended to, and replaced by a new list after its boundaries were written to the file.
    """

    files: IFileOperations
    path: str
    start: int
    #: The last boundaries, at most CHUNK of them; the earlier ones are in the file.
    tail: list[Boundary] = field(factory=list)
    #: The number of full chunks in the file, -1 while there is no file.
    chunks: int = -1
    #: Append time of the segment's first entry in ms, -1 if it is not known or there is none.
    first_ms: int = -1
    #: Set when the file could not be written. No append fails for that: a scan can rebuild the index.
    broken: bool = False

    def note(self, position: int, append_ms: int, highest_ms: int) -> None:
        """Add the boundary at ``position``; positions ascend, and the last one may be repeated.

        Writes each full chunk to the file (to the page cache, without a sync). Never raises.
        """
        tail = self.tail
        if tail:
            last = tail[-1]
            if last.append_ms > append_ms:
                append_ms = last.append_ms  # the clock was set back, but the search needs ascending times
            if last.position == position:
                tail[-1] = Boundary(position, append_ms, highest_ms)
                return
            if len(tail) >= CHUNK:
                self._write(tail)
                self.chunks += 1
                self.tail = tail = []
        elif self.first_ms < 0:
            self.first_ms = append_ms
        tail.append(Boundary(position, append_ms, highest_ms))

    def finish(self, end: int, append_ms: int, highest_ms: int) -> None:
        """Add the segment's end as the last boundary, and write all boundaries to the file."""
        self.note(end, append_ms, highest_ms)
        self._write(self.tail)

    def clear(self) -> None:
        """Discard all boundaries, because some lie inside a gap. The file is rewritten with the next ones."""
        self.tail = []
        self.chunks = -1

    def knows(self, position: int) -> bool:
        """Return whether ``position`` is a boundary in memory."""
        tail = self.tail
        at = bisect_right(tail, position, key=_POSITION)
        return at > 0 and tail[at - 1].position == position

    def cut(self) -> None:
        """Truncate the file to its full chunks, durably. Raises OSError.

        Without the sync, a chunk that was cut off could reappear after another crash, when the checkpoint is beyond its
        positions and other entries are stored there.
        """
        file = self.files.open(self.path)
        try:
            file.truncate(chunk_position(self.chunks) if self.chunks >= 0 else 0)
            file.sync_data()
        finally:
            file.close()

    def _write(self, boundaries: list[Boundary]) -> None:
        if self.broken:
            return
        try:
            file = self._open()
            try:
                if self.chunks < 0:
                    file.append([encode_header(self.start)])
                    self.chunks = 0
                file.truncate(chunk_position(self.chunks))  # replaces a last chunk that was not full
                file.append([encode_chunk(boundaries)])
            finally:
                file.close()
        except OSError:
            self.broken = True

    def _open(self) -> IFile:
        if self.chunks >= 0:
            return self.files.open(self.path)
        if self.files.exists(self.path):
            self.files.remove(self.path)
        return self.files.open(self.path, create=True)


def load_active_index(files: IFileOperations, path: str, start: int, sound_end: int) -> tuple[ActiveIndex, bool]:
    """Read the index of the last segment; return it and whether boundaries at its end had to be left out.

    Boundaries behind ``sound_end`` and chunks torn by a crash are left out. Raises OSError, and WrongIndex if no chunk
    can be used.
    """
    file = files.open_for_reading(path)
    try:
        found = IndexFile(file, start)
        index = ActiveIndex(files, path, start, chunks=0)
        left_out = False
        for number in reversed(range(found.chunks)):
            try:
                boundaries = found.chunk(number)
            except WrongIndex:
                left_out = True
                continue
            kept = [boundary for boundary in boundaries if boundary.position <= sound_end]
            left_out = left_out or len(kept) < len(boundaries)
            if kept:
                index.chunks, index.tail = number, kept
                break
        if found.chunks and not index.tail:
            raise WrongIndex("no chunk of it can be used")
        if index.tail:
            index.first_ms = (found.chunk(0) if index.chunks else index.tail)[0].append_ms
        return index, left_out
    finally:
        file.close()
