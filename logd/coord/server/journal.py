"""Keeps changes of the tree on a disk: appends them in order, and says up to which they outlast a loss of power.

Group commit: what is appended while a sync is under way shares the next one, and so does what arrives in one turn of
the reactor, unless that is so much that the disk had better begin while the rest is taken. All that may wait for the
disk happens in one work at a time on an IThreads. The first error ends it for good: after a failed fdatasync the page
cache may call pages clean that the disk never got, so nothing is tried again on that file; and a disk that is full is
full for a reason that a person has to know of. Whoever starts again on the folder finds everything that was
acknowledged.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from attrs import define, field, frozen
from zope.interface import implementer

from logd.coord.server.changecodec import encode_change
from logd.coord.server.changefile import SALT_BYTES, Head, encode_head, encode_records
from logd.coord.server.folder import changes_name
from logd.coord.server.recovery import Recovered
from logd.coord.tree.changes import Change
from logd.coord.tree.interfaces import IJournal
from logd.errors import LogdError
from logd.interfaces import Clock, IFile, IFileOperations, IThreads
from logd.log.mark import Mark
from logd.log.names import join

#: So many changes do not wait for the end of the turn: at some 15 us each they have taken as long as a sync does.
_BATCH = 64


class JournalFailed(LogdError):
    """A change could not be kept; the text says why, and what to do. Nothing more is kept until a new start."""


@frozen
class Disk:
    """Where a tree is kept, and what with. ``salt`` returns as many random bytes as it is asked for (os.urandom)."""

    folder: str
    files: IFileOperations
    threads: IThreads
    clock: Clock
    salt: Callable[[int], bytes]


@implementer(IJournal)
@define(eq=False)
class Journal:
    """Appends to the files of changes of one folder, from where recovery found their end."""

    _disk: Disk
    #: The last change appended, and the last one on the disk.
    last: int = 0
    flushed: int = 0
    #: Bytes appended to files of changes since the last ``roll``, and counters for people.
    bytes_since_roll: int = 0
    syncs: int = field(default=0, init=False)
    error: JournalFailed | None = field(default=None, init=False)
    _head: Head | None = None
    _file: IFile | None = field(default=None, init=False)
    _mark: Mark = field(init=False)
    _queue: list[tuple[int, bytes]] = field(factory=list, init=False)
    _due: bool = field(default=False, init=False)
    _working: bool = field(default=False, init=False)
    _rolling: bool = field(default=False, init=False)
    _idle: list[Callable[[], None]] = field(factory=list, init=False)
    _tell_flushed: Callable[[int], None] = field(default=lambda zxid: None, init=False)
    _tell_failed: Callable[[Exception], None] = field(default=lambda error: None, init=False)

    @_mark.default
    def _make_mark(self) -> Mark:
        return Mark(self._disk.files, self._disk.folder)

    @classmethod
    def resume(cls, disk: Disk, found: Recovered) -> Journal:
        """Go on behind what recovery found."""
        return cls(disk, found.last, found.last, found.change_bytes, found.head)

    def start(self, flushed: Callable[[int], None], failed: Callable[[Exception], None]) -> None:
        """See IJournal."""
        self._tell_flushed, self._tell_failed = flushed, failed

    def append(self, change: Change) -> None:
        """See IJournal. Does nothing once the journal has failed."""
        if self.error is not None:
            return
        self.last = change.zxid
        self._queue.append((change.zxid, encode_change(change)))
        if not self._due and not self._working:
            # What else arrives in this turn of the reactor shares the sync.
            self._due = True
            self._disk.clock.callLater(0, self._start_due)
        elif not self._working and len(self._queue) >= _BATCH:
            self._start()

    def roll(self) -> None:
        """Begin a new file with the next change."""
        self._rolling = True
        self.bytes_since_roll = 0

    def when_idle(self, call: Callable[[], None]) -> None:
        """Call once everything appended is on the disk, or will never be."""
        self._idle.append(call)
        self._tell_idle()

    def close(self) -> None:
        """Close the files. Only when idle."""
        self._mark.close()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _start_due(self) -> None:
        self._due = False
        self._start()

    def _start(self) -> None:
        if self._working or not self._queue or self.error is not None:
            return
        batch, self._queue = self._queue, []
        rolling, self._rolling = self._rolling, False
        self._working = True
        flushed = self.flushed

        def work() -> int:
            return self._write(batch, flushed, rolling)

        self._disk.threads.run(work, lambda count, error: self._done(batch[-1][0], count, error))

    def _write(self, batch: list[tuple[int, bytes]], flushed: int, rolling: bool) -> int:
        """On the thread: append and sync. Returns the bytes written."""
        disk = self._disk
        buffers = []
        if rolling and self._head is not None and self._head.base != flushed:
            if self._file is not None:
                self._file.close()
            self._file = self._head = None
        if self._head is None:
            # The folder is synced before anything in the file is acknowledged; its head shares the first sync.
            self._head = Head(flushed, disk.salt(SALT_BYTES))
            self._file = disk.files.open(join(disk.folder, changes_name(flushed)), create=True)
            disk.files.sync_directory(disk.folder)
            buffers.append(encode_head(self._head))
        elif self._file is None:
            self._file = disk.files.open(join(disk.folder, changes_name(self._head.base)))
        file, salt = self._file, self._head.salt
        assert file is not None
        buffers.append(encode_records(salt, flushed, batch))
        count = file.append(buffers)
        file.sync_data()
        self._mark.write(batch[-1][0])
        return count

    def _done(self, zxid: int, count: int | None, error: BaseException | None) -> None:
        self._working = False
        if error is not None:
            self._queue.clear()
            self.error = failure = self._failure(error)
            self._tell_failed(failure)
        else:
            self.syncs += 1
            self.flushed = zxid
            self.bytes_since_roll += count or 0
            self._start()
            self._tell_flushed(zxid)
        self._tell_idle()

    def _tell_idle(self) -> None:
        if self.error is not None or not (self._working or self._queue):
            waiting, self._idle = self._idle, []
            for call in waiting:
                call()

    def _failure(self, error: BaseException) -> JournalFailed:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "make room on that disk, then start again"
        else:
            remedy = "look at that disk, then start again"
        failure = JournalFailed(
            f"the coordination tree in {self._disk.folder} cannot keep its changes: {error}. Everything that was "
            f"acknowledged is kept, and nothing more is served: {remedy}"
        )
        failure.__cause__ = error
        return failure
