"""The leader epochs of a replica's log, as its epoch file has them."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.logger import Logger

from logd.deferreds.threads import on_thread
from logd.interfaces import IFileOperations, IThreads
from logd.log.epochs.epoch_file import read_epochs, write_epochs
from logd.log.epochs.history import NO_EPOCH, EpochHistory
from logd.log.epochs.search import recover_epochs
from logd.log.partition import PartitionLog


@define(eq=False)
class EpochCache:
    """The epochs of one replica: read once from the file, and written to it before they count."""

    _log = Logger()

    _files: IFileOperations
    _threads: IThreads
    #: None until they are read.
    history: EpochHistory | None = field(default=None, init=False)
    #: The latest epoch that the file ever named: perhaps one of which the log has no entry.
    highest: int = field(default=NO_EPOCH, init=False)
    #: False after a write that has failed: the file may have what was to be written, or what it had before.
    is_written: bool = field(default=True, init=False)

    @property
    def is_read(self) -> bool:
        """False until the epochs are read, also after the log was replaced by another one."""
        return self.history is not None

    @property
    def known(self) -> EpochHistory:
        """The epochs, which are read."""
        assert self.history is not None
        return self.history

    async def read(self, log: PartitionLog, state_epoch: Callable[[], int]) -> EpochHistory:
        """Read the epochs of a log, and return them. A file that is damaged or gone is made again from the log.

        ``state_epoch()`` is the leader epoch of the partition's state. Raises LogdError and OSError.
        """
        files = self._files
        try:
            found: EpochHistory = await on_thread(self._threads, lambda: read_epochs(files, log.folder))
            self.highest = max(self.highest, found.latest)
            self.history = found  # with an epoch behind the log's end: the file goes on to name it until others come
            return found
        except ValueError as error:
            self._log.error("{error} in {folder}: it is made again from the log", error=error, folder=log.folder)
        history: EpochHistory = await on_thread(self._threads, lambda: recover_epochs(files, log.snapshot(log.end)))
        self.highest = max(self.highest, state_epoch())  # its mark may be deleted
        await self.write(log, history)
        return history

    async def write(self, log: PartitionLog, history: EpochHistory) -> None:
        """Write the epochs of a log to its file. Raises OSError."""
        files, folder = self._files, log.folder
        self.highest = max(self.highest, history.latest)
        self.is_written = False
        await on_thread(self._threads, lambda: write_epochs(files, folder, history))
        self.history, self.is_written = history, True

    def log_changed(self) -> None:
        """Read them again when they are asked for next, as at a start."""
        self.history = None

    def log_emptied(self) -> None:
        """Take note that the log has begun again without entries, and without an epoch file."""
        self.history, self.is_written = EpochHistory(), True
