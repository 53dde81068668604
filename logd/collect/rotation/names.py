"""What names say: which files belong together, and which are not read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from os.path import basename, dirname, join, splitext

from attrs import frozen

#: Rotated files are compressed under these names; their lines were read before, and their bytes are no lines.
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".lzma", ".lzo", ".br", ".Z", ".zip", ".7z")


#: A rotation's mark in a name: ``.1``, ``.old``, or a date of any precision that begins with a year or is a time in
#: seconds (``-20111111``, ``.2011-11-11_13``, ``-1320969600``), perhaps with a number behind it.
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
        """A key that sorts the files of one name, the oldest first; numbers and dates are not mixed in practice."""
        return self.date if self.number is None else (-self.number,)


def rotations(path: str) -> list[Rotation]:
    """Return each way to read a path as that of a rotated file; none when it has no mark of a rotation."""
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
    """Return a key that sorts the files of a name by what their paths say, the oldest first."""
    for each in rotations(path):
        if each.name == name:
            return (0 if each.number is not None else 1), each.age
    return (2, ()) if path == name else (-1, ())


def may_become(path: str, other: str, name: str) -> bool:
    """Whether rotation may have renamed ``path``, a file of ``name``, to ``other``: files become no younger."""
    return path == other or (related(name, other) and age(other, name) <= age(path, name))


def is_compressed(path: str) -> bool:
    """Whether the name says that the content is compressed."""
    return path.endswith(COMPRESSED)


def stem(path: str) -> str:
    """What names of rotated files begin with: ``app`` of ``app.log``, as in app.log.1 and app-20111111.log."""
    return splitext(basename(path))[0]


def related(path: str, other: str) -> bool:
    """Whether ``other`` may be what rotation made of ``path``: in its folder, with its name's beginning."""
    return dirname(path) == dirname(other) and basename(other).startswith(stem(path))


class Stems:
    """Finds the paths that a file may be a rotated one of, without a look at every path."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._by_stem: dict[tuple[str, str], list[str]] = {}
        for path in paths:
            self._by_stem.setdefault((dirname(path), stem(path)), []).append(path)

    def of(self, path: str) -> list[str]:
        """The paths that ``related(each, path)``, but for itself; the closest name first."""
        folder, name = dirname(path), basename(path)
        found: list[str] = []
        for length in range(len(name), 0, -1):
            found += self._by_stem.get((folder, name[:length]), ())
        return [each for each in found if each != path]
