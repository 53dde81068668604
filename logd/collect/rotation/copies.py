"""Detects by content that one file is a copy of another: a copy made by copytruncate has been read already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from os.path import dirname, join

from attrs import define, field

from logd.collect.descriptors import Descriptors
from logd.collect.files import Files, Identity, Seen
from logd.collect.read_mark import HEAD_BYTES, TAIL_BYTES, ReadMark, beginning, checksum, fits
from logd.collect.rotation.names import Stems, is_compressed, related, stem
from logd.collect.source import SourceFile

#: Files with less in common are taken for different ones: repeated lines are better than lost ones.
MIN_BYTES = 64


def possible_copies(
    files: Files,
    source: SourceFile,
    sources: Mapping[Identity, SourceFile],
    found: Mapping[Identity, Seen],
    listing: bool = True,
) -> list[Seen]:
    """Return the files that may be copies of a source: those found and, by a listing, those that no pattern finds."""
    folder, beginning = dirname(source.path), stem(source.path)
    beside: list[Seen] = []
    if listing:
        beside = files.in_folder(folder, lambda name, _: name.startswith(beginning) and not is_compressed(name)) or []
    prefix = join(folder, beginning)
    copies = {identity for other in sources.values() if other is not source for identity in other.copies}
    # ``related``, in a thirtieth of the time: thousands of logs may be truncated at once, and each looks at all files.
    near = (seen for seen in (*found.values(), *beside) if seen.path.startswith(prefix))
    listed = {seen.identity: seen for seen in near if related(source.path, seen.path)}
    return [each for key, each in listed.items() if key not in sources and key not in copies]


def relatives(unknown: Sequence[Seen], sources: Iterable[SourceFile]) -> Iterator[tuple[Seen, SourceFile]]:
    """Yield each file with the sources that it may be a copy of by its name, the closest name first."""
    if not unknown:
        return
    by_path = {source.path: source for source in sources if not source.missed}
    stems = Stems(by_path)
    for seen in unknown:
        for path in stems.of(seen.path):
            yield seen, by_path[path]


def first_that_fits(files: Files, mark: ReadMark, candidates: Iterable[Seen]) -> Seen | None:
    """Return the first file that fits the mark."""
    for seen in candidates:
        if seen.size >= mark.position:
            with suppress(OSError):
                file = files.open(seen.path)
                try:
                    if file.seen().identity == seen.identity and fits(file, mark):
                        return seen
                finally:
                    file.close()
    return None


def first_as_long(source: SourceFile, candidates: Iterable[Seen]) -> Seen | None:
    """Return the first file that may be the copy of a source of which nothing is known but its size."""
    return next((seen for seen in candidates if seen.size >= source.sound_size > 0), None)


def followed_copy(descriptors: Descriptors, source: SourceFile, others: Iterable[SourceFile]) -> SourceFile | None:
    """Return the followed file that holds all of a broken source, and so its unread lines too; None if none does.

    A copy is followed on its own if the original was emptied before the two could be compared. Few bytes identify a
    file only if they are all that was seen of it.
    """
    if source.known.head_bytes < min(MIN_BYTES, source.sound_size):
        return None
    for other in others:
        if other is not source and not other.broken and related(source.path, other.path):
            with suppress(OSError):
                file = descriptors.get(other)
                # Its size is that of now: the copy may have been finished after it was listed.
                if file is not None and file.seen().size >= source.sound_size and fits(file, source.known):
                    return other
    return None


def cut_short(files: Files, mark: ReadMark, candidates: Iterable[Seen]) -> dict[Identity, Seen]:
    """Return the copies that end before the mark's position.

    The lines written between copying and truncating were read from the original.
    """
    copies = {}
    for seen in candidates:
        if MIN_BYTES <= mark.head_bytes <= seen.size < mark.position:
            with suppress(OSError):
                file = files.open(seen.path)
                try:
                    if file.seen().identity == seen.identity and fits(file, beginning(mark)):
                        copies[seen.identity] = seen
                finally:
                    file.close()
    return copies


@define
class FirstBytes:
    """The first bytes of files, read once for all comparisons of one look: each of many names may fit all others."""

    _files: Files
    _descriptors: Descriptors
    #: The first bytes by path, none of a file that cannot be read, and the checksums of so many of them.
    _heads: dict[str, bytes] = field(factory=dict, init=False)
    _checksums: dict[str, dict[int, str]] = field(factory=dict, init=False)

    def is_copy(self, source: SourceFile, seen: Seen) -> bool:
        """Return True if the whole file equals the beginning of the source's file, as the function of this name."""
        mark = source.known
        sums = self._checksums.get(seen.path)
        found = None if sums is None else sums.get(mark.head_bytes)
        if seen.size < MIN_BYTES or (found is not None and found != mark.head):
            return False  # of many thousand comparisons all but a few
        with suppress(OSError):
            return self._may_agree(seen, source, mark) and is_copy(self._files, self._descriptors, source, seen)
        return False

    def _may_agree(self, seen: Seen, source: SourceFile, mark: ReadMark) -> bool:
        head = self._heads.get(seen.path)
        if head is None:
            self._heads[seen.path] = b""  # kept if the file cannot be read: it is tried once
            file = self._files.open(seen.path)
            try:
                head = self._heads[seen.path] = file.read(0, min(HEAD_BYTES, seen.size))
            finally:
                file.close()
        if not head:
            return False
        if 0 < mark.head_bytes <= len(head):
            found = checksum(head[: mark.head_bytes])
            self._checksums.setdefault(seen.path, {})[mark.head_bytes] = found
            return found == mark.head
        first = self._heads.get(source.path)
        if first is None:
            self._heads[source.path] = b""
            original = self._descriptors.get(source)
            first = self._heads[source.path] = b"" if original is None else original.read(0, HEAD_BYTES)
        return first.startswith(head)


def is_copy(files: Files, descriptors: Descriptors, source: SourceFile, seen: Seen) -> bool:
    """Return True if the whole file equals the beginning of the source's file: a copy, finished or not."""
    count = seen.size
    if source.broken or source.missed or count < MIN_BYTES:
        return False
    with suppress(OSError):
        original = descriptors.get(source)
        file = files.open(seen.path)
        try:
            if original is None or file.seen().identity != seen.identity:
                return False
            tail = max(0, count - TAIL_BYTES), min(count, TAIL_BYTES)
            return all(file.read(*place) == original.read(*place) for place in ((0, min(count, HEAD_BYTES)), tail))
        finally:
            file.close()
    return False
