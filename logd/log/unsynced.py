"""The part of a partition that is not known to be on the disk: rolled segments, new names, and the sync under way."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field

from logd.interfaces import IFileOperations
from logd.log.disk.open_files import SharedFile
from logd.log.flusher import FlushTask


@define(eq=False)
class Unsynced:
    """Gathers what the next sync of one partition has to reach. Owner thread only; one sync at a time."""

    #: Segment files to sync before the one that is written to, each held.
    _files: list[SharedFile] = field(factory=list)
    #: Folders with names in them that are not known to last.
    _folders: list[str] = field(factory=list)
    #: Called when the sync under way is over, None when none is.
    _callbacks: list[Callable[[], None]] | None = None

    @property
    def is_syncing(self) -> bool:
        """Whether a sync is under way."""
        return self._callbacks is not None

    def add_file(self, shared: SharedFile) -> None:
        """Hold a segment that was rolled until the next sync is over."""
        shared.hold()
        self._files.append(shared)

    def add_folders(self, folders: Iterable[str]) -> None:
        """Have the next sync make the names in these folders last."""
        self._folders.extend(folder for folder in folders if folder not in self._folders)

    def begin(self, operations: IFileOperations, last: SharedFile | None, end: int, folder: str) -> FlushTask:
        """Return the sync of everything up to ``end``; ``last`` is the file written to, None if it needs no sync."""
        # Both lists are handed over: a file that is rolled, or a name that is made, while this sync is under way has
        # to be in the next one, even if it is in this one too.
        files, self._files = self._files, []
        folders, self._folders = self._folders, []
        if last is not None:
            last.hold()
            files.append(last)
        self._callbacks = []
        return FlushTask(operations, files, folders, end, folder)

    def over(self) -> None:
        """Note that the sync under way is over, and call whoever waited for that."""
        callbacks, self._callbacks = self._callbacks or (), None
        for callback in callbacks:
            callback()

    def when_over(self, done: Callable[[], None]) -> None:
        """Call ``done`` once when the sync under way is over; never when none is."""
        if self._callbacks is not None:
            self._callbacks.append(done)

    def close(self) -> None:
        """Let go of the files that wait for a sync."""
        while self._files:
            self._files.pop().release()
