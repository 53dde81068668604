"""The parts of a partition that may not be on the disk yet: rolled segments, new file names, and the sync under way."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field

from logd.interfaces import IFileOperations
from logd.log.disk.open_files import SharedFile
from logd.log.flush_task import FlushTask


@define(eq=False)
class Unsynced:
    """The files and folders for the next sync of one partition. Owner thread only; one sync at a time."""

    #: Rolled segment files, each held, to be synced before the last one.
    _files: list[SharedFile] = field(factory=list)
    #: Folders with new names that are not synced yet.
    _folders: list[str] = field(factory=list)
    #: Called when the sync under way has ended; None while no sync is under way.
    _callbacks: list[Callable[[], None]] | None = None
    #: The log's end when that sync began.
    _end: int = 0

    @property
    def is_syncing(self) -> bool:
        """Return whether a sync is under way."""
        return self._callbacks is not None

    def covers(self, end: int, flushed_end: int) -> bool:
        """Return whether the log is on the disk up to ``end``, or will be after the sync under way.

        A file that such a sync has does not belong in the next one, by which retention may have removed it.
        """
        return end <= (self._end if self.is_syncing else flushed_end)

    def add_file(self, shared: SharedFile) -> None:
        """Hold a rolled segment's file until the next sync has ended."""
        if shared not in self._files:  # a sync that is repeated had it, too
            shared.hold()
            self._files.append(shared)

    def add_folders(self, folders: Iterable[str]) -> None:
        """Include these folders in the next sync."""
        self._folders.extend(folder for folder in folders if folder not in self._folders)

    def begin(self, operations: IFileOperations, last: SharedFile | None, end: int, folder: str) -> FlushTask:
        """Begin a sync of everything up to ``end``; ``last`` is the last segment's file, None if it needs no sync."""
        # Both lists are handed over: a file that is rolled with more bytes than now, or a name that is made, during
        # this sync must be part of the next one, even if this one includes it too.
        files, self._files = self._files, []
        folders, self._folders = self._folders, []
        if last is not None and last not in files:  # see add_file
            last.hold()
            files.append(last)
        self._callbacks, self._end = [], end
        return FlushTask(operations, files, folders, end, folder)

    def again(self, task: FlushTask) -> None:
        """Include in the next sync what the one that has just failed had: its files, which stay held, and folders."""
        rolled, self._files = self._files, task.files
        for shared in rolled:
            self.add_file(shared)
            shared.release()
        self.add_folders(task.folders)

    def over(self) -> None:
        """Record that the sync under way has ended, and call the callbacks that wait for it."""
        callbacks, self._callbacks = self._callbacks or (), None
        for callback in callbacks:
            callback()

    def when_over(self, done: Callable[[], None]) -> None:
        """Call ``done`` once the sync under way has ended; never if none is under way."""
        if self._callbacks is not None:
            self._callbacks.append(done)

    def close(self) -> None:
        """Release the files that wait for a sync."""
        while self._files:
            self._files.pop().release()
