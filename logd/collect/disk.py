"""The file system of this machine, as ``files.Files``."""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from attrs import frozen

from logd.collect.files import Identity, OpenFile, Seen

#: O_NONBLOCK: the path of a regular file may have become a pipe without a writer when it is opened.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def _seen(path: str, status: os.stat_result) -> Seen:
    return Seen(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@frozen
class LocalOpenFile:
    """A descriptor open for reading."""

    path: str
    descriptor: int

    def seen(self) -> Seen:
        """Return the file's current state, by fstat."""
        return _seen(self.path, os.fstat(self.descriptor))

    def read(self, position: int, count: int) -> bytes:
        """Read with one pread, which is short only at the end of a regular file."""
        return os.pread(self.descriptor, count, position)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


class Disk:
    """The local file system."""

    def find(self, patterns: Sequence[str]) -> list[Seen]:
        """Implement ``Files.find`` with shell patterns; ``**`` matches folders of any depth."""
        paths: set[str] = set()
        for pattern in patterns:
            # An existing name that contains a bracket is a name, not a pattern.
            paths.update([pattern] if os.path.lexists(pattern) else matches(pattern))
        return list(_regular(sorted(paths)))

    def in_folder(self, folder: str, wanted: Callable[[str, int], bool]) -> list[Seen] | None:
        """Implement ``Files.in_folder``; only wanted files cost a stat."""
        try:
            with os.scandir(folder or ".") as entries:
                paths = [entry.path if folder else entry.name for entry in entries if wanted(entry.name, entry.inode())]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError:
            return None
        return list(_regular(sorted(paths)))

    def at(self, path: str) -> Seen:
        """Implement ``Files.at``."""
        try:
            status = os.stat(path)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise FileNotFoundError(error.errno, error.strerror, path) from None
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(errno.ENOENT, "no regular file", path)
        return _seen(path, status)

    def open(self, path: str) -> OpenFile:
        """Implement ``Files.open``."""
        return LocalOpenFile(path, os.open(path, _FLAGS))


def matches(pattern: str) -> Iterator[str]:
    """Yield the paths that match an absolute pattern, as ``glob`` does with ``recursive``, some perhaps twice.

    Unlike ``glob``, ``**`` does not search a folder again inside itself: two links that lead back would take for ever.
    """
    parts = pattern.split("/")
    if "**" not in parts:
        yield from glob.iglob(pattern)
        return
    at = parts.index("**")
    head, rest = "/".join(parts[:at]), parts[at + 1 :]
    for top in glob.iglob(head) if glob.has_magic(head) else (head,):
        for folder in _folders(top or "/"):
            if rest in ([], [""]):
                yield folder
            if rest != [""]:
                inside = "" if folder == "/" else glob.escape(folder)
                yield from matches("/".join((inside, *(rest or ("*",)))))


def _folders(top: str) -> Iterator[str]:
    """Yield a folder and all below it, but none that is hidden or contains the path on which it is found."""
    waiting: list[tuple[str, frozenset[Identity]]] = [(top, frozenset())]
    while waiting:
        folder, above = waiting.pop()
        with suppress(OSError):
            status = os.stat(folder)
            identity = status.st_dev, status.st_ino
            if identity in above or not stat.S_ISDIR(status.st_mode):
                continue
            yield folder
            path = above | {identity}
            with os.scandir(folder) as entries:
                for entry in entries:
                    is_folder = os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir()
                    if is_folder and not entry.name.startswith("."):
                        waiting.append((entry.path, path))


def _regular(paths: Sequence[str]) -> Iterator[Seen]:
    for path in paths:
        with suppress(OSError):  # gone since it was listed, or a link to nowhere
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                yield _seen(path, status)
