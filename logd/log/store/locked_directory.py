"""A data directory that this process has locked: its identity, and the partitions' folders in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import define, evolve, field

from logd.errors import DataDirectoryError
from logd.interfaces import IFile, IFileOperations
from logd.log.disk.folders import make_folder, may_be_directory, remove_leftovers
from logd.log.disk.names import META, NO_PARTITIONS, folder_partition, is_lost_name, is_tree_name, join
from logd.log.store.meta import Meta, lock_directory, raise_format, read_or_make_meta


@define(eq=False)
class LockedDirectory:
    """A data directory, locked from ``lock`` to ``unlock``. Every method blocks."""

    _files: IFileOperations
    _path: str
    #: None: the directory's own id, 0 for a new directory.
    _broker_id: int | None
    _new_instance: Callable[[], str]
    #: Names in the directory that belong to other components.
    _other_names: frozenset[str]
    _report: Callable[..., None]
    _lock: IFile | None = field(init=False, default=None)
    _meta: Meta | None = field(init=False, default=None)

    @property
    def meta(self) -> Meta:
        """The directory's identity."""
        if self._meta is None:
            raise RuntimeError("the data directory was not locked")
        return self._meta

    def lock(self) -> None:
        """Lock the directory, creating it if necessary, and remove the leftovers of a crash.

        Call ``unlock`` after an error, too. Raises DataDirectoryError, OSError.
        """
        make_folder(self._files, self._path)
        unreadable = self._refuse_tree()
        self._lock = lock_directory(self._files, self._path)
        if unreadable is not None:
            raise unreadable
        self._meta = read_or_make_meta(
            self._files, self._path, self._lock, self._broker_id, self._new_instance, self._report
        )
        remove_leftovers(self._files, self._path, self._report)

    def _refuse_tree(self) -> OSError | None:
        """Raise DataDirectoryError, before anything is written, for the directory of a coordination tree.

        Return the error if the directory cannot be read: of one that another user owns the lock says more.
        """
        try:
            names = self._files.list(self._path)
        except OSError as error:
            return error
        if META not in names and any(map(is_tree_name, names)):
            raise DataDirectoryError(
                f"data directory {self._path} is the directory of a coordination tree: give this broker one of its own"
            )
        return None

    def raise_format(self, to: int) -> None:
        """Raise the format in ``meta``, durably on return. Raises OSError."""
        meta = evolve(self.meta, format=to)
        raise_format(self._files, self._path, meta)
        self._meta = meta

    def partitions(self) -> Iterator[tuple[str, int, str]]:
        """Yield (topic, partition, path) of each partition's folder; report unknown names. Raises OSError."""
        for name in self._files.list(self._path):
            path = join(self._path, name)
            if name in NO_PARTITIONS or name in self._other_names or is_lost_name(name):
                continue
            found = folder_partition(name)
            if found is not None and may_be_directory(self._files, path):
                yield *found, path
            else:
                self._report("{path} does not belong to logd; it is left alone", path=path)

    def unlock(self) -> None:
        """Release the lock."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()
