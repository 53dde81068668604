"""Keeps a limited number of files open, and closes those last that could not be opened again."""

from __future__ import annotations

from collections import OrderedDict

from logd.collect.files import Files, OpenFile
from logd.collect.source import SourceFile


class Descriptors:
    """Opens the files of sources, and closes files when there are too many.

    An open file survives the removal of its name, so files stay open while there is room. Files whose name is gone,
    and files with unread bytes, are closed last.
    """

    def __init__(self, files: Files, limit: int) -> None:
        self._files = files
        self._limit = max(1, limit)
        #: Ordered by last use, the oldest first.
        self._open: OrderedDict[SourceFile, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def has_room(self) -> bool:
        """True when a file can be opened without closing another."""
        return len(self._open) < self._limit

    def get(self, source: SourceFile) -> OpenFile | None:
        """Return the source's open file, or None when another file is at its path now. Raises OSError."""
        file = source.file
        if file is None:
            file = self._files.open(source.path)
            try:
                is_source = file.seen().identity == source.identity
            except BaseException:
                file.close()
                raise
            if not is_source:
                file.close()
                return None
            while len(self._open) >= self._limit:
                self.close(min(self._open, key=_worth))
            source.file = file
            self._open[source] = None
        else:
            self._open.move_to_end(source)
        return file

    def close(self, source: SourceFile) -> None:
        """Close the source's file, if it is open."""
        file, source.file = source.file, None
        if file is not None:
            del self._open[source]
            file.close()

    def close_all(self) -> None:
        """Close every file."""
        for source in list(self._open):
            self.close(source)


def _worth(source: SourceFile) -> int:
    """Return the cost of closing the file; of equals, ``min`` takes the least recently used."""
    return 2 * (source.missed > 0) + (source.unread > 0)
