"""Counts and reports losses: rotated files that were compressed or removed before they were read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from logd.collect.files import Files
from logd.collect.rotation.names import rotations
from logd.collect.rotation.packed import is_packed_from, original_bytes, packed_source
from logd.collect.rotation.siblings import RotatedFiles, Sibling
from logd.collect.source import SourceFile
from logd.plurals import counted


class Losses:
    """The known losses. ``report`` takes a notice of one line."""

    def __init__(self, files: Files, rotated: RotatedFiles, report: Callable[[str], None]) -> None:
        self._files = files
        self._rotated = rotated
        self._report = report
        #: Bytes lost, as far as known.
        self.bytes = 0
        #: Losses, of known size or not.
        self.count = 0
        self._in_flight: list[SourceFile] = []

    def add(self, notice: str, count: int = 0) -> None:
        """Report and count a loss; ``count`` is its known number of bytes."""
        self._report(notice)
        self.bytes += count
        self.count += 1

    def watch(self, source: SourceFile) -> None:
        """Keep a source that is given up while lines of it are in flight, until these are acknowledged."""
        self._in_flight = [each for each in (*self._in_flight, source) if each.pending]

    def settle(self) -> None:
        """Count the lines of watched sources that are still not acknowledged: no run can read them again."""
        for source in self._in_flight:
            count = sum(piece.bytes for piece in source.pending if not piece.acknowledged)
            if count:
                self.add(
                    f"{source.path}: {counted(count, 'byte')} that were sent before the file was replaced or removed "
                    "are not acknowledged, and lost unless a broker has them",
                    count,
                )
        self._in_flight.clear()

    def match_packed(
        self, siblings: Iterable[Sibling], gone: Sequence[SourceFile], paths: Collection[str]
    ) -> dict[SourceFile, str]:
        """Pass over the compressed files of a name, and return the gone sources that were compressed, with their paths.

        A compressed file made from a file that was never read is a loss. ``paths`` are all existing files.
        """
        packed: dict[SourceFile, str] = {}
        for each in siblings:
            if not each.packed or each.seen.path.removesuffix(each.rotation.packed) in paths:
                continue  # the original still exists: it is just being compressed
            passed = self._rotated.passed_of(each.name)
            self._rotated.pass_over(each)
            source = packed_source(self._files, each.seen, [source for source in gone if source not in packed])
            length = original_bytes(self._files, each.seen)
            if source is not None:
                packed[source] = each.seen.path
                source.sound_size = max(source.sound_size, length or 0)
            elif length != 0 and not any(
                is_packed_from(self._files, each.seen, old.mark, old.seen.modified) for old in passed
            ):
                lost = f"{counted(each.seen.size, 'byte')} or more" if length is None else counted(length, "byte")
                self.add(
                    f"{each.seen.path} was compressed before it was read, and compressed files are skipped; "
                    f"lost: {lost}",
                    each.seen.size if length is None else length,
                )
        return packed

    def miss_numbers(self, name: str, before: str, now: str, paths: Iterable[str]) -> None:
        """Count the missing numbers of a name whose newest file was rotated from ``before`` to ``now``.

        ``paths`` are all existing files, of this name and others, except passed ones.
        """
        if name in self._rotated.ascending:
            return
        start, end = _number(before, name), _number(now, name)
        there = {_number(path, name) for path in paths}
        there.update(_number(old.seen.path, name) for old in self._rotated.passed_of(name))
        for number in range(1, end - max(start, 1) + 1):
            if number not in there:
                self.add(f"{name}.{number} is gone and was never read: all its lines are lost")


def _number(path: str, name: str) -> int:
    """Return the number in a rotated file's path, 0 when it has none."""
    return next((each.number or 0 for each in rotations(path) if each.name == name), 0)
