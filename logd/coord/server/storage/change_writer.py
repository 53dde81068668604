"""Writes records of changes to the files of one folder, each write followed by a sync: the journal's blocking half."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from attrs import define, field

from logd.coord.server.storage.change_file import SALT_BYTES, ChangeFileHead, encode_head, encode_records
from logd.coord.server.storage.folder import changes_name
from logd.interfaces import IFile, IFileOperations
from logd.log.disk.names import join
from logd.log.recovery.flush_mark import Mark


class WriteRefused(Exception):
    """The disk took nothing, or a part that was cut off again; see the cause. Retrying is safe."""


@define(eq=False)
class ChangeWriter:
    """The open file of changes. Calls block; they run one at a time, on any thread."""

    _files: IFileOperations
    _folder: str
    #: Returns as many random bytes as asked for.
    _salt: Callable[[int], bytes]
    #: The head of the file that the next record belongs to; None if that is a new file.
    _head: ChangeFileHead | None = None
    _file: IFile | None = field(default=None, init=False)
    #: The end of the records in the open file, and whether remains of a refused write may lie behind it.
    _end: int = field(default=0, init=False)
    _torn: bool = field(default=False, init=False)
    #: The synced part of that file.
    _synced: int = field(default=0, init=False)
    #: True if something was cut off since the last sync.
    _was_cut: bool = field(default=False, init=False)
    _mark: Mark = field(init=False)

    @_mark.default
    def _make_mark(self) -> Mark:
        return Mark(self._files, self._folder)

    def close(self) -> None:
        """Close the files."""
        self._mark.close()
        if self._file is not None:
            self._file.close()
            self._file = None

    def cut_unsynced(self) -> None:
        """After a failed sync, cut the unsynced bytes. Raises OSError."""
        if self._head is not None and self._end > self._synced:
            file = self._files.open(join(self._folder, changes_name(self._head.base)))
            try:
                file.truncate(self._synced)  # recovery syncs that
            finally:
                file.close()
            self._end = self._synced

    def write(self, batch: list[tuple[int, bytes]], flushed: int, rolling: bool) -> int:
        """Append and sync the changes behind ``flushed``, in a new file if ``rolling``; return the bytes written.

        Raises WriteRefused if nothing was written, and what the sync raised.
        """
        if rolling and not self._torn and self._head is not None and self._head.base != flushed:
            self._leave_file()
        try:
            file, count = self._append(batch, flushed)
        except OSError as error:
            raise WriteRefused from error
        if self._end == count:
            # A new file. Nothing in it is acknowledged before its folder is synced; its head shares the first sync.
            self._files.sync_directory(self._folder)
        file.sync_data()
        self._synced, self._was_cut = self._end, False
        self._mark.write(batch[-1][0])
        return count

    def _leave_file(self) -> None:
        if self._file is not None:
            if self._was_cut:
                # A file with a successor must not get a torn tail back: recovery would take it for damage.
                self._file.sync_data()
                self._was_cut = False
            self._file.close()
        self._file = self._head = None

    def _append(self, batch: list[tuple[int, bytes]], flushed: int) -> tuple[IFile, int]:
        if self._head is None:
            file = self._files.open(join(self._folder, changes_name(flushed)), create=True)
            self._file, self._end, self._synced, self._torn = file, 0, 0, False
            self._head = ChangeFileHead(flushed, self._salt(SALT_BYTES))
        elif self._file is None:
            self._file = file = self._files.open(join(self._folder, changes_name(self._head.base)))
            self._end = self._synced = file.size()
            self._torn = False
        else:
            file = self._file
        if self._torn:
            self._cut(file)
        buffers = [encode_records(self._head.salt, flushed, batch)]
        if not self._end:
            buffers.insert(0, encode_head(self._head))
        return file, self._append_whole(file, buffers)

    def _append_whole(self, file: IFile, buffers: Sequence[bytes]) -> int:
        """Append all of the buffers or nothing."""
        try:
            count = file.append(buffers)
        except OSError:
            self._torn = True
            with suppress(OSError):
                self._cut(file)
            raise
        self._end += count
        return count

    def _cut(self, file: IFile) -> None:
        self._was_cut = True
        file.truncate(self._end)
        self._torn = False
