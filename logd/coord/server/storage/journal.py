"""Writes changes of the tree to a disk in order, and reports those that would survive a loss of power.

Group commit: changes appended during a sync share the next one. So do changes of one turn of the reactor, unless they
are so many that the disk had better begin while the rest is appended. All blocking work runs one at a time on an
IThreads.

A write that the disk refuses (mostly because it is full) is cut back and retried until it succeeds: those changes were
not acknowledged, so nothing is lost by waiting. A failed sync ends the journal: the page cache may mark pages clean
that the disk never got, so nothing is retried on that file. Recovery reads what the disk has, and finds everything
that was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from attrs import define, field, frozen
from zope.interface import implementer

from logd.coord.server.storage.change_codec import encode_change
from logd.coord.server.storage.change_file import SALT_BYTES, ChangeFileHead, encode_head, encode_records
from logd.coord.server.storage.folder import changes_name
from logd.coord.server.storage.recovery import RecoveredTree
from logd.coord.tree.changes import Change
from logd.coord.tree.interfaces import IJournal
from logd.errors import LogdError
from logd.interfaces import Clock, IFile, IFileOperations, IThreads, Timer
from logd.log.disk.names import join
from logd.log.recovery.flush_mark import Mark

#: This many changes do not wait for the end of the turn: at about 15 us each they have taken as long as a sync.
_BATCH = 64
#: Seconds until a refused write is retried: at first, and at most after doubling.
FIRST_RETRY_SECONDS = 0.1
LONGEST_RETRY_SECONDS = 1.0


class JournalFailed(LogdError):
    """A sync has failed, for the reason in the text. Nothing more is journalled until the folder is recovered."""


class _Refused(Exception):
    """The disk took nothing, or a part that was cut off again; see the cause. Retrying is safe."""


@frozen
class JournalDisk:
    """The files, folder and threads of a journal. ``salt`` returns as many random bytes as asked for (os.urandom)."""

    folder: str
    files: IFileOperations
    threads: IThreads
    clock: Clock
    salt: Callable[[int], bytes]


@implementer(IJournal)
@define(eq=False)
class Journal:
    """Appends to the files of changes of one folder, from where recovery found their end."""

    _disk: JournalDisk
    #: The last change appended, and the last one on the disk.
    last: int = 0
    flushed: int = 0
    #: Bytes appended to files of changes since the last ``roll``, and counters for people.
    bytes_since_roll: int = 0
    syncs: int = field(default=0, init=False)
    error: JournalFailed | None = field(default=None, init=False)
    #: The reason why the disk refuses the waiting changes; None while it takes them.
    refused: OSError | None = field(default=None, init=False)
    #: Called when ``refused`` is set and when it is cleared.
    on_refused: Callable[[], None] = field(default=lambda: None, init=False)
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
    _queue: list[tuple[int, bytes]] = field(factory=list, init=False)
    _due: bool = field(default=False, init=False)
    _working: bool = field(default=False, init=False)
    _rolling: bool = field(default=False, init=False)
    _retry: Timer | None = field(default=None, init=False)
    _retry_seconds: float = field(default=FIRST_RETRY_SECONDS, init=False)
    _idle: list[Callable[[], None]] = field(factory=list, init=False)
    _tell_flushed: Callable[[int], None] = field(default=lambda zxid: None, init=False)
    _tell_failed: Callable[[Exception], None] = field(default=lambda error: None, init=False)

    @_mark.default
    def _make_mark(self) -> Mark:
        return Mark(self._disk.files, self._disk.folder)

    @classmethod
    def resume(cls, disk: JournalDisk, found: RecoveredTree) -> Journal:
        """Return a journal that continues after what recovery found."""
        return cls(disk, found.last, found.last, found.change_bytes, found.head)

    def start(self, flushed: Callable[[int], None], failed: Callable[[Exception], None]) -> None:
        """See IJournal."""
        self._tell_flushed, self._tell_failed = flushed, failed

    def append(self, change: Change) -> None:
        """See IJournal. Does nothing after a failure."""
        if self.error is not None:
            return
        self.last = change.zxid
        self._queue.append((change.zxid, encode_change(change)))
        if self._retry is not None:
            return  # goes with the next attempt
        if not self._due and not self._working:
            # Other changes of this turn of the reactor share the sync.
            self._due = True
            self._disk.clock.callLater(0, self._start_due)
        elif not self._working and len(self._queue) >= _BATCH:
            self._start()

    def roll(self) -> None:
        """Start a new file with the next change."""
        self._rolling = True
        self.bytes_since_roll = 0

    def when_idle(self, call: Callable[[], None]) -> None:
        """Call once everything appended is on the disk, or cannot be: after a failure, or refused by the disk."""
        self._idle.append(call)
        self._tell_idle()

    def close(self) -> None:
        """Close the files; changes that the disk refused are dropped. Only when idle."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._mark.close()
        if self._file is not None:
            self._file.close()
            self._file = None

    def cut_unsynced(self) -> None:
        """After a failed sync, cut the unsynced bytes, which were not acknowledged. Blocks; raises OSError.

        Otherwise recovery might read those changes from a page cache that keeps what the disk never got, although it
        asks the kernel to drop such pages, and take them for durable.
        """
        if self.error is not None and self._head is not None and self._end > self._synced:
            file = self._disk.files.open(join(self._disk.folder, changes_name(self._head.base)))
            try:
                file.truncate(self._synced)  # recovery syncs that
            finally:
                file.close()
            self._end = self._synced

    def _start_due(self) -> None:
        self._due = False
        self._start()

    def _start(self) -> None:
        if self._working or not self._queue or self.error is not None:
            return
        batch, self._queue = self._queue, []
        self._working = True
        rolling, self._rolling = self._rolling, False
        flushed = self.flushed

        def work() -> int:
            return self._write(batch, flushed, rolling)

        self._disk.threads.run(work, lambda count, error: self._done(batch, rolling, count, error))

    def _write(self, batch: list[tuple[int, bytes]], flushed: int, rolling: bool) -> int:
        """On the thread: append and sync. Returns the bytes written. Raises _Refused, and what the sync raised."""
        if rolling and not self._torn and self._head is not None and self._head.base != flushed:
            self._leave_file()
        try:
            file, count = self._append(batch, flushed)
        except OSError as error:
            raise _Refused from error
        if self._end == count:
            # A new file. Nothing in it is acknowledged before its folder is synced; its head shares the first sync.
            self._disk.files.sync_directory(self._disk.folder)
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
        disk = self._disk
        if self._head is None:
            file = disk.files.open(join(disk.folder, changes_name(flushed)), create=True)
            self._file, self._end, self._synced, self._torn = file, 0, 0, False
            self._head = ChangeFileHead(flushed, disk.salt(SALT_BYTES))
        elif self._file is None:
            self._file = file = disk.files.open(join(disk.folder, changes_name(self._head.base)))
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

    def _done(
        self, batch: list[tuple[int, bytes]], rolling: bool, count: int | None, error: BaseException | None
    ) -> None:
        self._working = False
        if isinstance(error, _Refused):
            self._queue[:0] = batch
            self._rolling = self._rolling or rolling
            self._try_again(error.__cause__)
        elif error is not None:
            self._queue.clear()
            self.error = failure = self._failure(error)
            self._tell_failed(failure)
        else:
            self.syncs += 1
            self.flushed = zxid = batch[-1][0]
            self.bytes_since_roll += count or 0
            self._retry_seconds = FIRST_RETRY_SECONDS
            self._set_refused(None)
            self._start()
            self._tell_flushed(zxid)
        self._tell_idle()

    def _try_again(self, error: BaseException | None) -> None:
        assert isinstance(error, OSError)
        self._retry = self._disk.clock.callLater(self._retry_seconds, self._retry_now)
        self._retry_seconds = min(2 * self._retry_seconds, LONGEST_RETRY_SECONDS)
        self._set_refused(error)

    def _retry_now(self) -> None:
        self._retry = None
        self._start()

    def _set_refused(self, error: OSError | None) -> None:
        before, self.refused = self.refused, error
        if (before is None) != (error is None):
            self.on_refused()

    def _tell_idle(self) -> None:
        if self.error is not None or self._retry is not None or not (self._working or self._queue):
            waiting, self._idle = self._idle, []
            for call in waiting:
                call()

    def _failure(self, error: BaseException) -> JournalFailed:
        failure = JournalFailed(
            f"the coordination tree in {self._disk.folder} cannot keep its changes: {error}. Everything that was "
            "acknowledged is kept; look at that disk"
        )
        failure.__cause__ = error
        return failure
