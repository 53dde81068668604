"""The work of a flush, done on a thread: one partition's sync, and the sync of many partitions of one file system."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from logd.interfaces import IFileOperations, IFileSystem
from logd.log.disk.errors import is_too_many_files
from logd.log.disk.open_files import SharedFile
from logd.log.recovery.flush_mark import write_mark


@define(eq=False)
class FlushTask:
    """One sync of one partition: the files and folders to sync, and the log's flushed end after it."""

    operations: IFileOperations
    #: Segment files, ascending; the last one may still grow. Each is held until the owner thread releases it.
    files: list[SharedFile]
    #: Folders with new names, which must be durable before anything in the files becomes visible.
    folders: list[str]
    #: The log's end when the sync began.
    end: int
    #: The partition's folder.
    folder: str

    def run(self) -> None:
        """Sync the files and folders, and write the flush mark. Any thread; blocks.

        Raises OSError; FileNotFoundError if a file was removed meanwhile; EMFILE or ENFILE if a folder could not be
        opened: then the files are synced, and all may be tried again.
        """
        for shared in self.files:
            shared.file.sync_data()
            shared.file.require(0)  # a removed file would be missing at the next start
        for folder in self.folders:
            self.operations.sync_directory(folder)
        write_mark(self.operations, self.folder, self.end)

    def is_on(self, file_system: IFileSystem) -> bool:
        """Return whether all files and folders are on ``file_system``; a partition's folder may be a mount."""
        device = file_system.device
        return all(shared.file.device == device for shared in self.files) and all(
            self.operations.device(folder) == device for folder in self.folders
        )

    def conclude(self) -> None:
        """Write the flush mark after a successful sync of the whole file system. Any thread; blocks.

        Raises OSError if a file was removed, or if since its last sync the kernel failed to write some of its bytes.
        """
        for shared in self.files:
            shared.file.check_written()
            shared.file.require(0)
        write_mark(self.operations, self.folder, self.end)


@define(eq=False)
class GroupTask:
    """One sync of the whole file system in place of a sync of each partition.

    Its success must promise what each partition's own fdatasync does, and syncfs(2) alone does not:

    - It reports a failed write only once to each descriptor of the directory, whichever file it concerns. A later call,
      or the call for another group, does not mention it. So each file is checked for its own failures.
    - It returns success at once for a file system that an error has made read-only (fs/sync.c, sync_filesystem). So one
      partition is synced by itself as well: fdatasync fails there.

    If either fails, every partition is synced by itself, and its outcome is that of its own fdatasync.
    """

    file_system: IFileSystem
    tasks: list[FlushTask]

    def run(self) -> list[Exception | None]:
        """Sync all tasks, and return the error of each, None for success. Any thread; blocks."""
        try:
            together = {task for task in self.tasks if task.is_on(self.file_system)}
            witness = next((task for task in self.tasks if task in together and task.files), None)
            if witness is None:
                together = set()
            else:
                self.file_system.sync()
        except OSError:
            together, witness = set(), None
        outcomes: dict[FlushTask, Exception | None] = {}
        if witness is not None:
            outcomes[witness] = error = _outcome(witness.run)
            if is_too_many_files(error):
                return [error] * len(self.tasks)  # all are tried again
            if error is not None:
                together = set()
        for task in self.tasks:
            if task is not witness:
                outcomes[task] = _outcome(task.conclude if task in together else task.run)
        return [outcomes[task] for task in self.tasks]


def _outcome(work: Callable[[], None]) -> Exception | None:
    try:
        work()
    except Exception as error:
        return error
    return None
