"""Reads of a file from the disk, not from the page cache, which leave the cache as it was."""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

from logd.interfaces import IFile


class StoredBytes(Protocol):
    """The part of IFile that a look for damage needs."""

    def read_at(self, position: int, count: int) -> bytes:
        """See IFile."""
        ...


@frozen
class UncachedFile:
    """An open file, for reading.

    The pages of a read are dropped first, so that they are what the disk has. Those that were cached are read for
    consumers too, and stay in the cache; the others are dropped again, so that they take nobody else's place there.
    """

    _file: IFile

    def read_at(self, position: int, count: int) -> bytes:
        """Read up to ``count`` bytes from the disk; see IFile."""
        was_cached = self._file.is_cached(position, count)
        self._file.drop_cache(position, count)
        data: bytes = self._file.read_at(position, count)
        if not was_cached:
            self._file.drop_cache(position, count)
        return data
