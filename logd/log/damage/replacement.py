"""The replacement of a closed segment's file by a sound one, of which a part comes from another replica.

    <start>.healed.tmp made beside the segment     1. a start after a crash removes it
    sound bytes copied, the others appended        2. each entry is checked
    every entry checked again, with the index      3. nothing unsound takes the place of the segment
    fdatasync, the old modification time           4. retention depends on the time
    rename                                         5. by the owner, who knows whether the segment is still the log's
    fsync of the folder                            6. after a loss of power before it: the old file or the new one

Who reads the old file goes on with it: its descriptor is open. Before the rename nothing is changed that anybody reads.
"""

from __future__ import annotations

from attrs import define, field

from logd.errors import CorruptMessage
from logd.interfaces import IFile, IFileOperations
from logd.log.damage.inspection import SegmentPlace
from logd.log.damage.repair import remove_index
from logd.log.damage.walk import SegmentWalk
from logd.log.disk.names import TEMPORARY_SUFFIX, join, segment_name
from logd.log.index.boundaries import read_boundaries
from logd.plurals import counted
from logd.protocol import loops
from logd.protocol.checksums import CHECKSUMS

#: Bytes that are copied in one step.
COPY_BYTES = 1 << 20


def replacement_path(folder: str, start: int) -> str:
    """Return the path of the new file while it is made."""
    name = segment_name(start).removesuffix(".log")
    return join(folder, f"{name}.healed{TEMPORARY_SUFFIX}")


@define(eq=False)
class SegmentReplacement:
    """A new file for the closed segment ``place``. Every method blocks, and may raise OSError."""

    _files: IFileOperations
    place: SegmentPlace
    #: The modification time of the segment, in seconds since the epoch.
    _modified: float
    path: str
    _file: IFile
    #: Bytes that were written.
    size: int = field(default=0, init=False)

    @classmethod
    def begin(cls, files: IFileOperations, place: SegmentPlace, modified: float) -> SegmentReplacement:
        """Make the file, empty; one that was left over is removed."""
        path = replacement_path(place.folder, place.start)
        if files.exists(path):
            files.remove(path)
        return cls(files, place, modified, path, files.open(path, create=True))

    def copy(self, end: int) -> bool:
        """Copy sound bytes of the present file up to file position ``end``, one step; return whether there are more."""
        count = min(COPY_BYTES, end - self.size)
        if count > 0:
            present = self._files.open_for_reading(self.place.path)
            try:
                data = present.read_at(self.size, count)
            finally:
                present.close()
            if len(data) < count:
                raise CorruptMessage("the file became shorter", self.place.start + self.size + len(data))
            self._write(data)
        return self.size < end

    def append(self, data: bytes | memoryview) -> None:
        """Append entries of another replica. Raises CorruptMessage unless all of them are whole and sound."""
        check_entries(data, self.place.start + self.size)
        self._write(data)

    def _write(self, data: bytes | memoryview) -> None:
        self._file.append([data])
        self.size += len(data)

    def finish(self, begin: int = 0) -> None:
        """Make the file durable, once it is whole and sound from file position ``begin`` on; else CorruptMessage."""
        place, end = self.place, self.place.end or 0
        if self.size != end:
            raise CorruptMessage(f"the new file has {counted(self.size, 'byte')} instead of {end}", place.start)
        boundaries = read_boundaries(self._files, place.index_path, place.start, end)
        walk = SegmentWalk(self._file, end, end, True, boundaries, CHECKSUMS, None)
        damage = next((found for found in walk.run() if found is not None and found.end > begin), None)
        if damage is not None:
            raise CorruptMessage(damage.reason, place.start + damage.position)
        self._file.sync_data()
        self._files.set_modified(self.path, self._modified)
        if walk.misplaced >= 0 or boundaries.problem:
            remove_index(self._files, place.index_path)
        self._file.close()

    def put_in_place(self) -> None:
        """Give the file the segment's name, at once. For the owner thread: a rename waits for no data."""
        self._files.rename(self.path, self.place.path)

    def discard(self) -> None:
        """Remove the file, unless it has the segment's name."""
        self._file.close()
        if self._files.exists(self.path):
            self._files.remove(self.path)


def check_entries(data: bytes | memoryview, position: int) -> None:
    """Raise CorruptMessage unless ``data``, which begins at ``position``, are whole entries with right checksums."""
    found = loops.scan_set(data)
    if found.problem or found.consumed != len(data) or not data:
        raise CorruptMessage(found.problem or "it ends inside an entry", position + found.consumed)
