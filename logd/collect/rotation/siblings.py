"""Finds rotated files by name beside the followed ones, and remembers those that are not read.

A log may be rotated more than once between two looks. Its first file is then found again by device and inode, but the
later ones were never seen, since patterns need not match ``app.log.1``. They are found by name: in the first look of a
run beside every name, later beside a name whose file was renamed, replaced or truncated.

Some rotated files are *passed*, that is, known and not read: those rotated before their name was followed, and
compressed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from os.path import basename, dirname
from typing import TYPE_CHECKING

from attrs import frozen

from logd.collect.files import Files, Identity, Seen
from logd.collect.read_mark import START, ReadMark, fits, mark_at
from logd.collect.rotation.names import Rotation, age, is_compressed, rotations
from logd.collect.rotation.strays import still_there
from logd.collect.source import SourceFile

if TYPE_CHECKING:  # keeps what this module finds
    from logd.collect.state import State


@frozen
class Passed:
    """A rotated file that is known and not read; the mark of one that is compressed or unreadable is empty."""

    #: The path that it was rotated from.
    name: str
    seen: Seen
    mark: ReadMark


@frozen
class Sibling:
    """A rotated file beside a followed name."""

    seen: Seen
    rotation: Rotation

    @property
    def name(self) -> str:
        """The path that the file was rotated from."""
        return self.rotation.name

    @property
    def packed(self) -> bool:
        """True when the file is compressed."""
        return bool(self.rotation.packed)


class RotatedFiles:
    """The rotated files of followed names. ``before`` is the state of an earlier run."""

    def __init__(
        self, files: Files, patterns: Collection[str], excluded: Callable[[str], bool], before: State | None
    ) -> None:
        self._files = files
        self._patterns = patterns
        self._excluded = excluded
        self._before = before
        self._gone: list[Passed] = []
        #: Folders that could not be listed in the last search.
        self._unlisted: set[str] = set()
        #: Names whose highest number is the newest file.
        self.ascending: set[str] = set()
        passed = before.passed if before is not None else ()
        self.passed: dict[Identity, Passed] = {each.seen.identity: each for each in passed}

    def unknown(
        self,
        names: Collection[str],
        found: Collection[Identity],
        known: Collection[Identity],
        by_name: Mapping[str, Sequence[SourceFile]],
        first: bool,
    ) -> dict[str, list[Sibling]]:
        """Return the rotated files of ``names`` that are not known yet, the oldest of a name first.

        ``found`` files match a pattern, ``known`` ones are followed or copies, and ``by_name`` are followed now.
        ``first`` marks the first look of a run, which searches for all names. Files that were rotated before their
        name was followed are passed.
        """
        result: dict[str, list[Sibling]] = {}
        there: set[Identity] = set()
        for name, siblings in self.find(names, first).items():
            for each in siblings:
                there.add(each.seen.identity)
                # A compressed file may have the inode of a gone source.
                if (each.seen.identity in known and not each.packed) or self.is_passed(each):
                    continue
                if first and each.seen.identity not in found and self._is_past(each, by_name.get(name, ())):
                    self.pass_over(each)
                else:
                    result.setdefault(name, []).append(each)
        missing = [(key, each) for key, each in self.passed.items() if each.name in names and key not in there]
        gone = [key for key, each in missing if self._is_gone(each.seen)]
        self._gone = [self.passed.pop(identity) for identity in gone]
        return result

    def _is_gone(self, seen: Seen) -> bool:
        """Return False if a file that no listing has may be there all the same, so that it is not read as a new one."""
        return dirname(seen.path) not in self._unlisted and still_there(self._files, seen) is None

    def passed_of(self, name: str) -> list[Passed]:
        """Return the passed files of a name, including those that the last look did not find."""
        return [each for each in (*self.passed.values(), *self._gone) if each.name == name]

    def find(self, names: Collection[str], everywhere: bool) -> dict[str, list[Sibling]]:
        """Return the rotated files of ``names`` by name, the oldest first.

        With ``everywhere``, also those of each name that matches a pattern, whether or not that file exists.
        """
        found: dict[Identity, Sibling] = {}
        self._unlisted.clear()
        for folder in sorted({dirname(name) for name in names}):
            prefix = folder if folder.endswith("/") or not folder else f"{folder}/"

            def wanted(name: str, _: int, prefix: str = prefix) -> bool:
                return self._rotation(prefix + name, names, False) is not None

            listed = self._files.in_folder(folder, wanted)
            if listed is None:
                self._unlisted.add(folder)
            self._note(listed or (), names, False, found)
        if everywhere:
            longer = [f"{pattern}[._-]*" for pattern in self._patterns if basename(pattern) != "**"]
            self._note(self._files.find([*self._patterns, *longer]), names, True, found)
        by_name: dict[str, list[Sibling]] = {}
        for sibling in found.values():
            by_name.setdefault(sibling.name, []).append(sibling)
        for name, siblings in by_name.items():
            numbered = [each for each in siblings if each.rotation.number is not None]
            if len(numbered) > 1:
                first, last = (most(numbered, key=_number) for most in (min, max))
                (self.ascending.add if first.seen.modified < last.seen.modified else self.ascending.discard)(name)
            siblings.sort(key=self._age)
        return by_name

    def age(self, path: str, name: str) -> tuple[int, tuple[int, ...]]:
        """Return the key that sorts the files of a name by their paths, the oldest first.

        The highest number is the oldest, unless the modification times of the files contradict it.
        """
        kind, numbers = age(path, name)
        return kind, tuple(-each for each in numbers) if kind == 0 and name in self.ascending else numbers

    def name_of(self, path: str, names: Collection[str]) -> str:
        """Return the name that a path was rotated from, if it is one of ``names``; else the path itself."""
        rotation = self._rotation(path, names, False)
        return path if rotation is None else rotation.name

    def is_passed(self, sibling: Sibling) -> bool:
        """Return True if the file is a passed one, and not another file with the same inode."""
        known = self.passed.get(sibling.seen.identity)
        if known is None:
            return False
        same = known.seen[3:] == sibling.seen[3:]
        if not same and not sibling.packed and sibling.seen.size >= known.mark.position > 0:
            same = self._fits(sibling.seen, known.mark)
        if same:
            self.passed[sibling.seen.identity] = Passed(sibling.name, sibling.seen, known.mark)
        else:
            del self.passed[sibling.seen.identity]
        return same

    def pass_over(self, sibling: Sibling) -> None:
        """Record a file as passed: it is never read."""
        mark = START
        if not sibling.packed:
            try:
                file = self._files.open(sibling.seen.path)
                try:
                    mark = mark_at(file, sibling.seen.size)
                finally:
                    file.close()
            except FileNotFoundError:
                return
            except OSError:
                pass  # its size and time identify it, as those of a compressed file
        self.passed[sibling.seen.identity] = Passed(sibling.name, sibling.seen, mark)

    def _is_past(self, sibling: Sibling, followed: Sequence[SourceFile]) -> bool:
        before = self._before
        if before is None:
            return True
        if before.patterns is not None:
            return not followed and not before.patterns.issuperset(self._patterns)
        # That memory says nothing of rotated files: those that are newer than the newest followed one came since.
        newest = followed[-1] if followed else None
        if newest is None:
            return True
        return not (newest.missed or newest.broken) and self._age(sibling) <= self.age(newest.path, newest.name)

    def _age(self, sibling: Sibling) -> tuple[int, tuple[int, ...]]:
        return self.age(sibling.seen.path.removesuffix(sibling.rotation.packed), sibling.name)

    def _note(
        self, files: Iterable[Seen], names: Collection[str], matching: bool, found: dict[Identity, Sibling]
    ) -> None:
        for seen in files:
            rotation = self._rotation(seen.path, names, matching)
            if rotation is not None and not self._excluded(seen.path):
                found.setdefault(seen.identity, Sibling(seen, rotation))

    def _rotation(self, path: str, names: Collection[str], matching: bool) -> Rotation | None:
        for rotation in rotations(path):
            if rotation.name in names or (matching and self._is_followed(rotation.name)):
                return rotation
        return None

    def _is_followed(self, name: str) -> bool:
        return (
            not is_compressed(name)
            and not self._excluded(name)
            and any(name == pattern or _matches(name.split("/"), pattern.split("/")) for pattern in self._patterns)
        )

    def _fits(self, seen: Seen, mark: ReadMark) -> bool:
        try:
            file = self._files.open(seen.path)
            try:
                return fits(file, mark)
            finally:
                file.close()
        except OSError:
            return False


def _number(sibling: Sibling) -> int:
    return sibling.rotation.number or 0


def _matches(parts: list[str], pattern: list[str]) -> bool:
    """Return True if a path matches a shell pattern, both split into parts; ``**`` is any number of folders."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[count:], pattern[1:]) for count in range(len(parts))) or len(pattern) == 1
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
