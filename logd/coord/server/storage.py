"""A durable tree: opens its folder, gives the tree that is in it, keeps its changes, and writes snapshots in time."""

from __future__ import annotations

from collections.abc import Callable

from zope.interface import implementer

from logd.coord.server.changecodec import decode_change, decode_pieces, encode_pieces
from logd.coord.server.folder import open_folder, snapshot_name
from logd.coord.server.journal import Disk, Journal
from logd.coord.server.recovery import Report, recover
from logd.coord.server.snapshots import write_snapshot
from logd.coord.tree.changes import Change
from logd.coord.tree.interfaces import IJournal
from logd.coord.tree.tree import Snapshot, Tree
from logd.errors import DataDirectoryError
from logd.interfaces import IFile
from logd.log.names import join


@implementer(IJournal)
class Storage:
    """The journal of one tree, with its snapshots."""

    def __init__(self, disk: Disk, snapshot_bytes: int, report: Report) -> None:
        """``report(format, **fields)`` is told what a person should know of; ``snapshot_bytes`` see the settings."""
        self._disk = disk
        self._snapshot_bytes = snapshot_bytes
        self._report = report
        self._lock: IFile | None = None
        self._journal: Journal | None = None
        self._tree = Tree()
        self._waiting: Snapshot | None = None
        self._writing = False
        self._last_snapshot_bytes = 0
        self._flushed: Callable[[int], None] = lambda zxid: None
        #: Snapshots written since the start, and the last one that could not be.
        self.snapshots = 0
        self.snapshot_error: BaseException | None = None

    @property
    def journal(self) -> Journal:
        """Where changes go. Only after ``open``."""
        assert self._journal is not None
        return self._journal

    def open(self) -> Tree:
        """Lock and recover the folder, and return the tree in it. Blocks. Raises DataDirectoryError."""
        disk = self._disk
        self._lock = open_folder(disk.files, disk.folder)
        try:
            found = recover(disk.files, disk.folder, self._report)
            sessions, nodes = decode_pieces(found.pieces)
            snapshot = Snapshot(found.snapshot_zxid, nodes, tuple(sessions)) if nodes else Snapshot()
            changes = (decode_change(zxid, change) for zxid, change in found.changes)
            self._tree = Tree.restore(snapshot, changes)
        except (OSError, ValueError) as error:
            self._unlock()
            raise DataDirectoryError(f"the coordination tree in {disk.folder} cannot be opened: {error}") from error
        except BaseException:
            self._unlock()
            raise
        self._journal = Journal.resume(disk, found)
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
        """Wait until all is on the disk and no snapshot is under way, then let go of the folder and call."""

        def idle() -> None:
            if self._writing:
                self._disk.clock.callLater(0.01, idle)
                return
            self.journal.close()
            self._unlock()
            closed()

        self.journal.when_idle(idle)

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _flushed_to(self, zxid: int) -> None:
        self._flushed(zxid)
        if self._writing:
            return
        due = self.journal.bytes_since_roll >= max(self._snapshot_bytes, self._last_snapshot_bytes)
        if self._waiting is None and due:
            # Copies references alone; what is written must not be ahead of what is on the disk, or the files of
            # changes would have a hole for whoever has to begin with the snapshot before.
            self._waiting = self._tree.snapshot()
            self.journal.roll()
        if self._waiting is not None and self._waiting.zxid <= self.journal.flushed:
            snapshot, self._waiting = self._waiting, None
            self._writing = True
            self._disk.threads.run(lambda: self._write(snapshot), self._written)

    def _write(self, snapshot: Snapshot) -> int:
        """On a thread."""
        disk = self._disk
        write_snapshot(disk.files, disk.folder, snapshot.zxid, encode_pieces(snapshot.sessions, snapshot.nodes))
        return disk.files.size(join(disk.folder, snapshot_name(snapshot.zxid)))

    def _written(self, size: int | None, error: BaseException | None) -> None:
        self._writing = False
        self.snapshot_error = error
        if error is None:
            self.snapshots += 1
            self._last_snapshot_bytes = size or 0
        else:
            # Nothing is lost: the older snapshot and the changes behind it stay.
            self._report(
                "no snapshot of the coordination tree could be written in {folder}: {error}; tried again later",
                folder=self._disk.folder,
                error=str(error),
            )
