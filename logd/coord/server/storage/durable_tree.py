"""A durable tree: opens its folder, returns the tree in it, journals its changes, and writes snapshots in time."""

from __future__ import annotations

import errno
from collections.abc import Callable

from zope.interface import implementer

from logd.coord.server.storage.change_codec import decode_change, decode_pieces, encode_pieces
from logd.coord.server.storage.folder import open_folder, snapshot_name
from logd.coord.server.storage.journal import Journal, JournalDisk
from logd.coord.server.storage.recovery import Report, recover
from logd.coord.server.storage.snapshots import write_snapshot
from logd.coord.tree.changes import Change
from logd.coord.tree.interfaces import IJournal
from logd.coord.tree.tree import Tree, TreeSnapshot
from logd.errors import DataDirectoryError
from logd.interfaces import IFile
from logd.log.disk.names import join

#: Seconds until a failed snapshot is retried, at the next change after that.
SNAPSHOT_RETRY_SECONDS = 60.0


@implementer(IJournal)
class Storage:
    """The journal of one tree, with its snapshots."""

    def __init__(self, disk: JournalDisk, snapshot_bytes: int, report: Report) -> None:
        """``report(format, **fields)`` receives messages for the operator; for ``snapshot_bytes`` see the settings."""
        self._disk = disk
        self._snapshot_bytes = snapshot_bytes
        self._report = report
        self._lock: IFile | None = None
        self._journal: Journal | None = None
        self._tree = Tree()
        self._waiting: TreeSnapshot | None = None
        self._writing = False
        self._last_snapshot_bytes = 0
        self._retry_at: float | None = None
        self._flushed: Callable[[int], None] = lambda zxid: None
        #: Snapshots written since the start, and the error of the last failed one.
        self.snapshots = 0
        self.snapshot_error: BaseException | None = None

    @property
    def journal(self) -> Journal:
        """The journal of the changes. Only after ``open``."""
        assert self._journal is not None
        return self._journal

    @property
    def refused(self) -> OSError | None:
        """The reason why the disk refuses changes at the moment; None while it takes them."""
        return None if self._journal is None else self._journal.refused

    def open(self) -> Tree:
        """Lock and recover the folder, and return the tree in it. Blocks. Raises DataDirectoryError.

        After ``close`` it can be opened again.
        """
        disk = self._disk
        self._lock = open_folder(disk.files, disk.folder)
        try:
            if self._journal is not None:
                self._journal.cut_unsynced()
            found = recover(disk.files, disk.folder, self._report)
            sessions, nodes = decode_pieces(found.pieces)
            snapshot = TreeSnapshot(found.snapshot_zxid, nodes, tuple(sessions)) if nodes else TreeSnapshot()
            changes = (decode_change(zxid, change) for zxid, change in found.changes)
            self._tree = Tree.restore(snapshot, changes)
        except (OSError, ValueError) as error:
            self._unlock()
            raise DataDirectoryError(f"the coordination tree in {disk.folder} cannot be opened: {error}") from error
        except BaseException:
            self._unlock()
            raise
        self._journal = Journal.resume(disk, found)
        self._journal.on_refused = self._refused
        self._waiting = None
        self._last_snapshot_bytes = sum(map(len, found.pieces))
        return self._tree

    def start(self, flushed: Callable[[int], None], failed: Callable[[Exception], None]) -> None:
        """See IJournal."""
        self._flushed = flushed
        self.journal.start(self._flushed_to, failed)

    def append(self, change: Change) -> None:
        """See IJournal."""
        assert self._journal is not None
        self._journal.append(change)

    def close(self, closed: Callable[[], object]) -> None:
        """Wait until everything is on the disk and no snapshot is under way, unlock the folder and call ``closed``.

        Changes that the disk refuses at the moment are dropped: they were never acknowledged.
        """

        def idle() -> None:
            if self._writing:
                self._disk.clock.callLater(0.01, idle)
                return
            if self._journal is not None:
                self._journal.close()
            self._unlock()
            closed()

        if self._journal is None:
            idle()
        else:
            self._journal.when_idle(idle)

    def _refused(self) -> None:
        error = self.journal.refused
        if error is None:
            self._report("the coordination tree in {folder} keeps its changes again", folder=self._disk.folder)
        else:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            self._report(
                "the coordination tree in {folder} cannot keep its changes at the moment: {error}; its clients wait, "
                "and it is tried again every second: {remedy}",
                folder=self._disk.folder,
                error=str(error),
                remedy="make room on that disk" if full else "look at that disk",
            )

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _flushed_to(self, zxid: int) -> None:
        self._flushed(zxid)
        if self._writing:
            return
        due = self.journal.bytes_since_roll >= max(self._snapshot_bytes, self._last_snapshot_bytes)
        if self._retry_at is not None and self._disk.clock.seconds() >= self._retry_at:
            due = True
        if self._waiting is None and due:
            # Copies references alone. The snapshot must not be ahead of what is on the disk, or a recovery that
            # begins with the previous snapshot would find a hole in the files of changes.
            self._waiting = self._tree.snapshot()
            self.journal.roll()
        if self._waiting is not None and self._waiting.zxid <= self.journal.flushed:
            snapshot, self._waiting = self._waiting, None
            self._writing = True
            self._disk.threads.run(lambda: self._write(snapshot), self._written)

    def _write(self, snapshot: TreeSnapshot) -> int:
        """Write the snapshot, on a thread."""
        disk = self._disk
        write_snapshot(disk.files, disk.folder, snapshot.zxid, encode_pieces(snapshot.sessions, snapshot.nodes))
        return disk.files.size(join(disk.folder, snapshot_name(snapshot.zxid)))

    def _written(self, size: int | None, error: BaseException | None) -> None:
        self._writing = False
        self.snapshot_error = error
        self._retry_at = None
        self._retry_at = None
        if error is None:
            self.snapshots += 1
            self._last_snapshot_bytes = size or 0
        else:
            # Nothing is lost: the older snapshot and the changes behind it stay.
            self._retry_at = self._disk.clock.seconds() + SNAPSHOT_RETRY_SECONDS
            self._report(
                "no snapshot of the coordination tree could be written in {folder}: {error}; nothing is lost, and it "
                "is tried again in a minute",
                folder=self._disk.folder,
                error=str(error),
            )
