"""What names say: which files belong together, and which are not read."""

from __future__ import annotations

from collections.abc import Iterable
from os.path import basename, dirname, splitext

#: Rotated files are compressed under these names; their lines were read before, and their bytes are no lines.
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".lzma", ".lzo", ".br", ".Z", ".zip", ".7z")


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
