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

from collections.abc import Callable

from attrs import define, field, frozen
from zope.interface import implementer

from logd.coord.server.storage.change_codec import encode_change
from logd.coord.server.storage.change_writer import ChangeWriter, WriteRefused
from logd.coord.server.storage.recovery import RecoveredTree
from logd.coord.tree.changes import Change
from logd.coord.tree.interfaces import IJournal
from logd.errors import LogdError
from logd.interfaces import Clock, IFileOperations, IThreads, Timer

#: This many changes do not wait for the end of the turn: at about 15 us each they have taken as long as a sync.
_BATCH = 64
#: Seconds until a refused write is retried: at first, and at most after doubling.
FIRST_RETRY_SECONDS = 0.1
LONGEST_RETRY_SECONDS = 1.0


class JournalFailed(LogdError):
    """A sync has failed, for the reason in the text. Nothing more is journalled until the folder is recovered."""


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
    _writer: ChangeWriter
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
    _queue: list[tuple[int, bytes]] = field(factory=list, init=False)
    _due: bool = field(default=False, init=False)
    _working: bool = field(default=False, init=False)
    _rolling: bool = field(default=False, init=False)
    _retry: Timer | None = field(default=None, init=False)
    _retry_seconds: float = field(default=FIRST_RETRY_SECONDS, init=False)
    _idle: list[Callable[[], None]] = field(factory=list, init=False)
    _tell_flushed: Callable[[int], None] = field(default=lambda zxid: None, init=False)
    _tell_failed: Callable[[Exception], None] = field(default=lambda error: None, init=False)

    @classmethod
    def resume(cls, disk: JournalDisk, found: RecoveredTree) -> Journal:
        """Return a journal that continues after what recovery found."""
        writer = ChangeWriter(disk.files, disk.folder, disk.salt, found.head)
        return cls(disk, writer, found.last, found.last, found.change_bytes)

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
        self._writer.close()

    def cut_unsynced(self) -> None:
        """After a failed sync, cut the unsynced bytes, which were not acknowledged. Blocks; raises OSError.

        Otherwise recovery might read those changes from a page cache that keeps what the disk never got, although it
        asks the kernel to drop such pages, and take them for durable.
        """
        if self.error is not None:
            self._writer.cut_unsynced()

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
            return self._writer.write(batch, flushed, rolling)

        self._disk.threads.run(work, lambda count, error: self._done(batch, rolling, count, error))

    def _done(
        self, batch: list[tuple[int, bytes]], rolling: bool, count: int | None, error: BaseException | None
    ) -> None:
        self._working = False
        if isinstance(error, WriteRefused):
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
