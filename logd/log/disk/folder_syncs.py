"""Syncs many folders on threads, some at a time, so that syncs of messages come in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from logd.interfaces import IFileOperations, IThreads

#: Folders that one piece of work syncs: a millisecond or so each.
FOLDERS_AT_ONCE = 20
#: Pieces of work at a time. A file system writes its journal once for all that wait for it.
SYNCS_AT_ONCE = 2


@define(eq=False)
class FolderSyncs:
    """One list of folders; ``done`` gets what went wrong first, or None. Owner thread only."""

    _files: IFileOperations
    _threads: IThreads
    _folders: Sequence[str]
    _done: Callable[[BaseException | None], None]
    _at: int = field(default=0, init=False)
    _running: int = field(default=0, init=False)
    _error: BaseException | None = field(default=None, init=False)

    def start(self) -> None:
        """Sync them all."""
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
