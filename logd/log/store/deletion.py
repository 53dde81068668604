"""The removal of deleted partitions' folders, once no other work uses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from logd.errors import UnknownError
from logd.interfaces import IFileOperations, IThreads
from logd.log.checkpoints_and_expiry import Upkeep
from logd.log.disk.folders import remove_partitions
from logd.log.disk.names import DELETED_SUFFIX, folder_name, join
from logd.log.partition import PartitionLog
from logd.log.store.reopening import Reopener


@define(eq=False)
class FolderDeletion:
    """The partitions of one data directory that are being deleted. Owner thread only."""

    _files: IFileOperations
    _threads: IThreads
    _upkeep: Upkeep
    _reopener: Reopener
    #: The data directory.
    _path: str
    _new_instance: Callable[[], str]
    _report: Callable[..., None]
    _leaving: set[tuple[str, int]] = field(factory=set, init=False)

    def check(self, topic: str, partition: int) -> None:
        """Raise UnknownError while the folder of that name is being deleted."""
        if (topic, partition) in self._leaving:
            raise UnknownError(f"the former {topic}-{partition} is being deleted: try again soon")

    def delete(
        self,
        leaving: set[tuple[str, int]],
        logs: Sequence[PartitionLog],
        done: Callable[[BaseException | None], None],
    ) -> None:
        """Remove the folders of ``leaving``, whose closed logs are ``logs``; ``done`` gets the error, or None."""
        self._leaving |= leaving
        # Only after upkeep and syncs of them have ended: both work by path, and could meet a folder made anew.
        folders = [join(self._path, folder_name(*key)) for key in sorted(leaving)]

        def removed(_: None, error: BaseException | None) -> None:
            self._leaving -= leaving
            done(error)

        def remove_settled() -> None:
            busy = next((log for log in logs if log.is_syncing), None)
            if busy is not None:
                busy.when_settled(remove_settled)
            else:
                self._threads.run(lambda: self.remove(folders), removed)

        self._reopener.when_none(logs, lambda: self._upkeep.forget(logs, remove_settled))

    def remove(self, folders: Sequence[str]) -> None:
        """Remove folders that nothing uses, durably. Any thread; blocks; raises OSError."""
        remove_partitions(
            self._files, self._path, folders, lambda: f"{self._new_instance()}{DELETED_SUFFIX}", self._report
        )
