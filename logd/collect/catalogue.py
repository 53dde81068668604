"""Which file is which: finds files by pattern and tells rotated, copied, emptied, new and vanished ones apart.

One look, in this order:

1. Files are found by pattern, then sources that are missing are sought by inode in the folders where they last were.
2. A source that is smaller than what was read of it, or no longer fits its mark, is *broken*: its file was emptied
   (copytruncate) or overwritten, or its inode was given to another file.
3. A broken or missing source moves to a file beside it that fits its mark: the copy that copytruncate made, a file
   that was written anew with the same content, a restored one. One that is broken and has no such file is given up.
4. What is left over is new, unless it is a copy of a source that is still whole: that holds nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os.path import dirname

from logd.collect.copies import MIN_BYTES, first_that_fits, is_copy
from logd.collect.descriptors import Descriptors
from logd.collect.files import Files, Identity, Seen
from logd.collect.mark import fits, line_start, mark_at
from logd.collect.names import Stems, is_compressed, related, stem
from logd.collect.source import Source

#: How far to look for the beginning of a line.
LOOK_BACK_BYTES = 1 << 20


class Catalogue:
    """The sources. ``report`` takes one line about something that a person may want to know."""

    def __init__(
        self,
        files: Files,
        patterns: Sequence[str],
        excluded: Callable[[str], bool],
        descriptors: Descriptors,
        report: Callable[[str], None],
    ) -> None:
        self._files = files
        self._patterns = patterns
        self._excluded = excluded
        self._descriptors = descriptors
        self._report = report
        self.sources: dict[Identity, Source] = {}
        #: By the name that they were first seen under, the oldest first.
        self.by_name: dict[str, list[Source]] = {}
        #: Whether something changed that a state file should know.
        self.changed = False
        #: Bytes that are known to have been written and not read before they were gone.
        self.lost = 0
        self._told: dict[Source, str] = {}

    def add(self, source: Source) -> None:
        """Follow a source."""
        self.sources[source.identity] = source
        self.by_name.setdefault(source.name, []).append(source)
        self.changed = True

    def forget(self, source: Source) -> None:
        """Follow a source no more; copies of it that are left hold nothing new up to where they were compared."""
        self._descriptors.close(source)
        self._detach(source)
        self._told.pop(source, None)
        self.changed = True
        same = self.by_name[source.name]
        same.remove(source)
        if not same:
            del self.by_name[source.name]
        for seen in source.copies.values():
            self._adopt(seen, source)

    def trouble(self, source: Source, error: OSError) -> None:
        """A source cannot be read until the next look; say so unless that was said."""
        source.trouble = error.strerror or str(error)
        if self._told.get(source) != source.trouble:
            self._told[source] = source.trouble
            self._report(f"{source.path} cannot be read: {source.trouble}")

    def look(self, now: float) -> list[Source]:
        """Look at all files; return the sources that are new. ``now`` in seconds."""
        found = self._find()
        strays = self._strays(found)
        present = {**strays, **found}
        for source in self.sources.values():
            if source.identity not in present:  # these first: meeting others opens files, and may close what is open
                self._miss(source, now)
        for source in self.sources.values():
            if source.identity in present:
                self._meet(source, present[source.identity], now)
        followed = list(self.sources.values())
        for source in followed:
            if source.broken:
                self._detach(source)  # what has its inode now may be what another one is looking for
        for source in followed:
            if source.broken or source.missed == 1 or (source.missed and source.file is None):
                self._move(source, found)
        self._compare_copies(found)
        return self._add_new(self._unknown(found), now)

    def _detach(self, source: Source) -> None:
        if self.sources.get(source.identity) is source:
            del self.sources[source.identity]

    def _find(self) -> dict[Identity, Seen]:
        found: dict[Identity, Seen] = {}
        for seen in self._files.find(self._patterns):
            if is_compressed(seen.path) or self._excluded(seen.path):
                continue
            source = self.sources.get(seen.identity)
            if seen.identity not in found or (source is not None and source.path == seen.path):
                found[seen.identity] = seen
        return found

    def _strays(self, found: dict[Identity, Seen]) -> dict[Identity, Seen]:
        """Sources that no pattern finds, where they are now: renamed in their folders."""
        strays: dict[Identity, Seen] = {}
        for _ in range(2):  # who is renamed while a folder is listed may not be in that list, but is in the next
            missing: dict[str, set[int]] = {}
            for source in self.sources.values():
                if source.identity not in found and source.identity not in strays:
                    missing.setdefault(dirname(source.path), set()).add(source.identity[1])
            for folder, inodes in missing.items():
                for seen in self._files.in_folder(folder, lambda _, inode, inodes=inodes: inode in inodes):  # type: ignore[misc]  # a default binds it now
                    strays[seen.identity] = seen
        return strays

    def _meet(self, source: Source, seen: Seen, now: float) -> None:
        """A source was found."""
        source.missed = 0
        source.trouble = ""
        if source.path != seen.path:
            left = max(0, seen.size - source.mark.position)
            self._report(f"{source.path} is now {seen.path}" + (f", {left} bytes are left to read" if left else ""))
            source.path = seen.path
            self.changed = True
        if seen.size < source.mark.position:
            source.broken = True
            return
        changed = (seen.size, seen.modified) != (source.size, source.modified)
        if changed:
            source.size, source.modified, source.changed_at = seen.size, seen.modified, now
        # Reading verifies too; but whether it is still the same file has to be known before others are.
        if changed or not source.verified:
            self._verify(source)

    def _verify(self, source: Source) -> None:
        try:
            file = self._descriptors.get(source)
            if file is not None:
                source.verified = fits(file, source.mark)
                source.broken = not source.verified
                if source.verified:
                    source.sound_size = source.size
        except OSError as error:
            self.trouble(source, error)

    def _miss(self, source: Source, now: float) -> None:
        """A source has no name any more; what is open can still be read."""
        source.missed += 1
        if source.file is None:
            return
        source.trouble = ""
        try:
            seen = source.file.seen()
        except OSError as error:
            self.trouble(source, error)
            return
        if seen.size < source.mark.position:
            source.broken = True
        elif seen.size != source.size:
            source.size, source.changed_at = seen.size, now
            source.sound_size = max(source.sound_size, seen.size)

    def _move(self, source: Source, found: dict[Identity, Seen]) -> None:
        """Go on in a copy, if there is one; give a source up that cannot be gone on with."""
        copy = None
        if source.mark.position >= MIN_BYTES:
            copy = first_that_fits(self._files, source.mark, self._candidates(source, found))
        if copy is not None:
            left = copy.size - source.mark.position
            what = "emptied" if source.broken else "replaced"
            self._report(f"{source.path} was {what}; {copy.path} is its copy, {left} bytes are left to read")
            self._descriptors.close(source)
            self._detach(source)
            source.copies.pop(copy.identity, None)
            source.path, _, _, source.size, source.modified = copy
            source.sound_size = source.size
            source.identity = copy.identity
            source.broken, source.verified, source.missed, source.stuck_at = False, True, 0, -1
            self.sources[source.identity] = source
            self.changed = True
        elif source.broken or source.file is None:
            self.give_up(source)

    def _candidates(self, source: Source, found: dict[Identity, Seen]) -> list[Seen]:
        """Files that may be copies of a source: those found, and those beside it that no pattern finds."""
        beginning = stem(source.path)
        beside = self._files.in_folder(
            dirname(source.path), lambda name, _: name.startswith(beginning) and not is_compressed(name)
        )
        copies = {identity for other in self.sources.values() if other is not source for identity in other.copies}
        listed = {seen.identity: seen for seen in (*found.values(), *beside) if related(source.path, seen.path)}
        return [each for key, each in listed.items() if key not in self.sources and key not in copies]

    def give_up(self, source: Source) -> None:
        """Forget a source that cannot be read any further; say so if something is lost by that."""
        position = source.mark.position
        lost = max(0, source.sound_size - position)
        if not source.broken:
            if lost:
                self._report(f"{source.path} is gone: it was read up to byte {position}, {lost} bytes or more are lost")
        elif lost:
            self._report(
                f"{source.path} was emptied or overwritten: it was read up to byte {position}, what came behind it is "
                f"lost: {lost} bytes, or as many as there were"
            )
        else:
            self._report(f"{source.path} was emptied or overwritten, reading from its start")
        self.lost += lost
        self.forget(source)

    def _compare_copies(self, found: dict[Identity, Seen]) -> None:
        """Copies that changed may be copies no more."""
        for source in list(self.sources.values()):
            for identity, before in list(source.copies.items()):
                seen = found.get(identity)
                if seen is None:
                    del source.copies[identity]
                elif seen[3:] != before[3:]:
                    if is_copy(self._files, self._descriptors, source, seen):
                        source.copies[identity] = seen
                    else:
                        del source.copies[identity]
                        self._adopt(before, source)

    def _adopt(self, copy: Seen, of: Source) -> None:
        """Follow what was a copy from where it was compared last, as far as that was acknowledged of the original."""
        if copy.identity in self.sources:
            return
        source = Source(copy.path, copy.identity, copy.path)
        try:
            file = self._descriptors.get(source)
            if file is not None:
                place = of.acknowledged.position
                if place > copy.size:  # a copy that was not finished ends anywhere
                    place = line_start(file, copy.size, LOOK_BACK_BYTES)
                source.mark = source.acknowledged = mark_at(file, place)
                source.size = source.sound_size = file.seen().size
                self.add(source)
        except OSError:
            self._descriptors.close(source)  # the next look finds what it is, if it is

    def _unknown(self, found: dict[Identity, Seen]) -> list[Seen]:
        """Files that are neither sources nor copies of some. Not those that are empty: they bring nothing yet, and
        what they are (the beginning of a copy?) can be said once they have content."""
        copies = {identity for source in self.sources.values() for identity in source.copies}
        return [seen for key, seen in found.items() if seen.size and key not in self.sources and key not in copies]

    def _relatives(self, unknown: list[Seen]) -> list[tuple[Seen, Source]]:
        """The sources that files may be copies of, by name; the closest name first."""
        if not unknown:
            return []
        by_path = {source.path: source for source in self.sources.values() if not source.missed}
        stems = Stems(by_path)
        return [(seen, by_path[path]) for seen in unknown for path in stems.of(seen.path)]

    def _add_new(self, unknown: list[Seen], now: float) -> list[Source]:
        copies: set[Identity] = set()
        for seen, source in self._relatives(unknown):
            if seen.identity not in copies and is_copy(self._files, self._descriptors, source, seen):
                source.copies[seen.identity] = seen
                copies.add(seen.identity)
                self.changed = True
        new = []
        for seen in unknown:
            if seen.identity not in copies:
                source = Source(seen.path, seen.identity, seen.path)
                source.size, source.modified, source.changed_at = seen.size, seen.modified, now
                source.sound_size = seen.size
                self.add(source)
                new.append(source)
        return new
