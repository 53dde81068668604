"""Interprets file names: which files belong together, and which are compressed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from os.path import basename, dirname, join, splitext

from attrs import frozen

#: The endings of compressed files, which are not read: their lines were read before they were compressed.
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".lzma", ".lzo", ".br", ".Z", ".zip", ".7z")


#: A rotation's mark in a name: ``.1``, ``.old``, or a date of any precision that begins with a year or is a time in
#: seconds (``-20111111``, ``.2011-11-11_13``, ``-1320969600``), optionally followed by a number.
_MARK = r"(?:\.(?P<number>\d{1,3})|\.old|[._-](?P<date>(?:(?:19|20)\d\d[._-]?[01]\d|1\d{9})[0-9._:TZ+-]*))"
#: ``app.log.1`` as most programs write it, and ``app.1.log`` as logrotate's ``extension`` and logging libraries do.
_ROTATED = (re.compile(rf"(?P<root>.+?){_MARK}"), re.compile(rf"(?P<root>.+?){_MARK}(?P<extension>\.[A-Za-z]\w*)"))


@frozen
class Rotation:
    """The parts of a rotated file's name."""

    #: The path that the file had before it was rotated.
    name: str
    #: Rotations since then, None when the name has a date; ``.old`` is 1.
    number: int | None
    #: The numbers of the date, largest unit first.
    date: tuple[int, ...]
    #: The ending of a compressed file, empty for others.
    packed: str

    @property
    def age(self) -> tuple[int, ...]:
        """The key that sorts the files of one name, the oldest first; numbers and dates are not mixed in practice."""
        return self.date if self.number is None else (-self.number,)


def rotations(path: str) -> list[Rotation]:
    """Return each interpretation of a path as that of a rotated file; none without a mark of rotation."""
    folder, last = dirname(path), basename(path)
    packed = next((each for each in COMPRESSED if last.endswith(each)), "")
    last = last.removesuffix(packed)
    found = []
    for form in _ROTATED:
        parts = form.fullmatch(last)
        if parts is not None:
            groups = parts.groupdict()
            name = join(folder, groups["root"] + groups.get("extension", ""))
            if groups["date"]:
                numbers = tuple(int(each) for each in re.findall(r"\d+", groups["date"]))
                found.append(Rotation(name, None, numbers, packed))
            else:
                found.append(Rotation(name, int(groups["number"] or 1), (), packed))
    return found


def age(path: str, name: str) -> tuple[int, tuple[int, ...]]:
    """Return the key that sorts the files of a name by their paths, the oldest first."""
    for each in rotations(path):
        if each.name == name:
            return (0 if each.number is not None else 1), each.age
    return (2, ()) if path == name else (-1, ())


def may_become(path: str, other: str, name: str) -> bool:
    """Return True if rotation may have renamed ``path``, a file of ``name``, to ``other``: files never get younger."""
    return path == other or (related(name, other) and age(other, name) <= age(path, name))


def is_compressed(path: str) -> bool:
    """Return True if the name is that of a compressed file."""
    return path.endswith(COMPRESSED)


def stem(path: str) -> str:
    """Return the common prefix of rotated names: ``app`` for ``app.log``, as in app.log.1 and app-20111111.log."""
    return splitext(basename(path))[0]


def related(path: str, other: str) -> bool:
    """Return True if ``other`` may be a rotated ``path``: in the same folder, with the same stem."""
    return dirname(path) == dirname(other) and basename(other).startswith(stem(path))


class Stems:
    """Finds the paths that a file may have been rotated from, without comparing it with every path."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._by_stem: dict[tuple[str, str], list[str]] = {}
        for path in paths:
            self._by_stem.setdefault((dirname(path), stem(path)), []).append(path)

    def of(self, path: str) -> list[str]:
        """Return the other paths for which ``related(each, path)`` is true, the closest name first."""
        folder, name = dirname(path), basename(path)
        found: list[str] = []
        for length in range(len(name), 0, -1):
            found += self._by_stem.get((folder, name[:length]), ())
        return [each for each in found if each != path]
