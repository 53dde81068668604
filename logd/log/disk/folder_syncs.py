"""Syncs of many folders on threads, a few at a time, so that syncs of messages are not held up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from logd.interfaces import IFileOperations, IThreads

#: Folders that one task on a thread syncs: about a millisecond each.
FOLDERS_AT_ONCE = 20
#: Tasks at a time. A file system writes its journal once for all syncs that wait for it.
SYNCS_AT_ONCE = 2


@define(eq=False)
class FolderSyncs:
    """The syncs of one list of folders; ``done`` gets the first error, or None. Owner thread only."""

    _files: IFileOperations
    _threads: IThreads
    _folders: Sequence[str]
    _done: Callable[[BaseException | None], None]
    _at: int = field(default=0, init=False)
    _running: int = field(default=0, init=False)
    _error: BaseException | None = field(default=None, init=False)

    def start(self) -> None:
        """Begin to sync the folders."""
        for _ in range(SYNCS_AT_ONCE):
            self._next()

    def _next(self) -> None:
        folders = self._folders[self._at : self._at + FOLDERS_AT_ONCE]
        if not folders or self._error is not None:
            return
        self._at += len(folders)
        self._running += 1

        def work() -> None:
            for folder in folders:
                self._files.sync_directory(folder)

        self._threads.run(work, self._synced)

    def _synced(self, _: None, error: BaseException | None) -> None:
        self._running -= 1
        self._error = self._error or error
        self._next()
        if not self._running:
            self._done(self._error)
