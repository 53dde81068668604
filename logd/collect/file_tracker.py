"""Finds files by pattern and identifies them: rotated, copied, truncated, new and vanished ones.

One look has these steps:

1. Find files by pattern, then missing sources by inode in the folders where they were last, and by their paths.
2. A source is *broken* when its file is shorter than the part that was read, or no longer fits its mark: the file was
   truncated (copytruncate) or overwritten, or its inode was given to another file.
3. Look for rotated files beside names that have changed (``rotated``). A compressed file is matched with the source
   that it was made from; one made from a file that was never read is a loss.
4. A broken or missing source moves to a file beside it that fits its mark: the copy made by copytruncate, a rewritten
   or a restored file. A broken source without such a file is given up.
5. All other files are new, except copies of a whole source. The files of one name are ordered, the oldest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os.path import dirname

from logd.collect.descriptors import Descriptors
from logd.collect.files import Files, Identity, Seen
from logd.collect.read_mark import fits, line_start, mark_at, seen_at_once
from logd.collect.rotation.copies import (
    MIN_BYTES,
    FirstBytes,
    cut_short,
    first_as_long,
    first_that_fits,
    followed_copy,
    is_copy,
    possible_copies,
    relatives,
)
from logd.collect.rotation.losses import Losses
from logd.collect.rotation.names import is_compressed, may_become
from logd.collect.rotation.siblings import RotatedFiles, Sibling
from logd.collect.rotation.strays import is_hidden, strays
from logd.collect.source import SourceFile
from logd.collect.state import State
from logd.plurals import counted

#: Bytes in which the beginning of a line is searched for.
LOOK_BACK_BYTES = 1 << 20


class FileTracker:
    """The sources that are followed. ``report`` takes a notice of one line for the operator."""

    def __init__(
        self,
        files: Files,
        patterns: Sequence[str],
        excluded: Callable[[str], bool],
        descriptors: Descriptors,
        report: Callable[[str], None],
        restored: State | None = None,
    ) -> None:
        """``restored`` is the state of an earlier run."""
        self._files = files
        self._patterns = patterns
        self._excluded = excluded
        self._descriptors = descriptors
        self._report = report
        self.sources: dict[Identity, SourceFile] = {}
        #: Sources by the name under which they were first seen, the oldest first.
        self.by_name: dict[str, list[SourceFile]] = {}
        #: True when a change has to be saved in the state file.
        self.changed = False
        self._told: dict[SourceFile, str] = {}
        self._rotated = RotatedFiles(files, patterns, excluded, restored)
        self._losses = Losses(files, self._rotated, report)
        self._first, self._stirred = True, set[str]()  # the first look; names that changed in this look
        for source in restored.sources if restored is not None else ():
            self.add(source)

    @property
    def lost(self) -> int:
        """The bytes known to have been lost: written, and gone before they were read."""
        return self._losses.bytes

    @property
    def losses(self) -> int:
        """The number of losses, of known size or not."""
        return self._losses.count

    @property
    def state(self) -> State:
        """The state that the next run needs."""
        sources = [source for same in self.by_name.values() for source in same]
        return State(sources, frozenset(self._patterns), list(self._rotated.passed.values()))

    def add(self, source: SourceFile) -> None:
        """Follow a source."""
        self.sources[source.identity] = source
        self.by_name.setdefault(source.name, []).append(source)
        self.changed = True

    def forget(self, source: SourceFile) -> None:
        """Stop following a source. Its remaining copies are followed from where they were last compared."""
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

    def trouble(self, source: SourceFile, error: OSError) -> None:
        """Record that a source cannot be read until the next look; report each reason once."""
        source.trouble = error.strerror or str(error)
        if self._told.get(source) != source.trouble:
            self._told[source] = source.trouble
            self._report(f"{source.path} cannot be read: {source.trouble}")

    def look(self, now: float) -> list[SourceFile]:
        """Check all files and return the new sources. ``now`` is in seconds."""
        found = self._find()
        present = {**strays(self._files, self.sources.values(), found), **found}
        newest = {same[-1]: same[-1].path for same in self.by_name.values()} if self._first else {}
        for source in self.sources.values():
            if source.identity not in present:  # first, because _meet opens files and may close open ones
                self._miss(source, now)
        for source in self.sources.values():
            if source.identity in present:
                self._meet(source, present[source.identity], now)
        followed = list(self.sources.values())
        for source in followed:
            if source.broken:
                self._detach(source)  # the file that has its inode now may be one that another source is missing
        siblings = self._beside(found)
        unread = [each.seen for same in siblings.values() for each in same if not each.packed]
        packed = self._match_packed(siblings, followed, present)
        everything = {**{seen.identity: seen for seen in unread}, **found}
        for source in followed:
            unreadable = source.missed and source.file is None and not source.in_flight
            if source.broken or source.missed == 1 or unreadable:
                self._move(source, everything, packed.get(source, ""))
        paths = {seen.path for seen in everything.values()} | {each.path for each in self.sources.values()}
        for source, before in newest.items():
            if source in packed or (source.path != before and not source.broken and not source.missed):
                self._losses.miss_numbers(source.name, before, packed.get(source, source.path), paths)
        self._compare_copies(found)
        new = self._add_new(self._unknown(everything), now)
        self._stirred.clear()
        self._first = False
        return new

    def _detach(self, source: SourceFile) -> None:
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

    def _meet(self, source: SourceFile, seen: Seen, now: float) -> None:
        """Update a source whose file was found."""
        source.missed = 0
        source.trouble = ""
        path, modified = source.path, source.modified
        source.path = seen.path
        changed = (seen.size, seen.modified) != (source.size, source.modified)
        if seen.size < (source.mark.position or source.sound_size):
            source.broken = True
        elif not source.known.head_bytes and not may_become(path, seen.path, source.name):
            source.broken = True  # found empty: only the name identifies it
        elif changed:
            if not source.known.head_bytes:
                self._stirred.add(source.name)  # perhaps copied and truncated since it was found empty
            source.size, source.modified, source.changed_at = seen.size, seen.modified, now
        # Reading verifies too, but the other files can be identified only after this one.
        if not source.broken and (changed or not source.verified):
            self._verify(source)
        if source.broken:  # another file, at any path, may have its inode now
            source.path, source.modified = path, modified
            self._stirred.add(source.name)
        elif path != seen.path:
            left = max(0, seen.size - source.mark.position)
            self._report(f"{path} is now {seen.path}" + (f", {counted(left, 'byte')} left to read" if left else ""))
            self.changed = True
            self._stirred.add(source.name)

    def _verify(self, source: SourceFile) -> None:
        try:
            file = self._descriptors.get(source)
            if file is not None:
                head, size = seen_at_once(file)
                source.verified = fits(file, source.known)  # last: then the content seen fitted too
                source.broken = not source.verified
                if source.verified:
                    source.sound_size = min(source.size, size)  # less if it was emptied since it was listed
                    if head.head_bytes > source.known.head_bytes:
                        source.birth = head
        except OSError as error:
            self.trouble(source, error)

    def _miss(self, source: SourceFile, now: float) -> None:
        """Update a source that has no name any more; an open file can still be read."""
        source.missed += 1
        if source.missed == 1:
            self._stirred.add(source.name)
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
            source.size, source.modified, source.changed_at = seen.size, seen.modified, now
            source.sound_size = max(source.sound_size, seen.size)

    def _beside(self, found: dict[Identity, Seen]) -> dict[str, list[Sibling]]:
        """Return the unknown rotated files by name: those of changed names and, in the first look, of all names."""
        names = set(self._stirred)
        unknown = list(found.values()) if self._first else self._unknown(found)
        followed = {seen.path for seen in found.values()} | set(self.by_name) if unknown else set()
        names.update(self._rotated.name_of(seen.path, followed) for seen in unknown)
        if self._first:
            names.update(self.by_name, (each.name for each in self._rotated.passed.values()))
        return self._rotated.unknown(names, found, {*self.sources, *self._copied()}, self.by_name, self._first)

    def _copied(self) -> set[Identity]:
        return {identity for source in self.sources.values() for identity in source.copies}

    def _match_packed(
        self, siblings: dict[str, list[Sibling]], followed: Sequence[SourceFile], present: dict[Identity, Seen]
    ) -> dict[SourceFile, str]:
        """Return the sources that were compressed, with the paths of the compressed files."""
        packed: dict[SourceFile, str] = {}
        paths = {seen.path for seen in present.values()}
        paths.update(each.seen.path for same in siblings.values() for each in same)
        for name, same in siblings.items():
            if any(each.packed for each in same):
                gone = [source for source in followed if source.name == name and (source.broken or source.missed)]
                packed.update(self._losses.match_packed(same, gone, paths))
                self.changed = True
        return packed

    def _is_doubtful(self, source: SourceFile, found: dict[Identity, Seen]) -> bool:
        """Return True if a source may have lost unseen lines: it was replaced or renamed while no collector ran."""
        if not self._first or self.by_name[source.name][-1] is not source:
            return False
        name = source.name
        return source.broken or any(self._rotated.name_of(seen.path, (name,)) == name for seen in found.values())

    def _move(self, source: SourceFile, found: dict[Identity, Seen], packed: str) -> None:
        """Continue a source in its copy, if there is one; else give it up if it cannot be read any more."""
        candidates = possible_copies(self._files, source, self.sources, found, listing=False)
        copy = first_that_fits(self._files, source.known, candidates)
        if copy is None or source.known.head_bytes < MIN_BYTES:
            candidates = possible_copies(self._files, source, self.sources, found)
            copy = first_that_fits(self._files, source.known, candidates)
        what = "truncated" if source.broken else "replaced"
        if packed:
            copy = None
        elif copy is not None and source.known.head_bytes < MIN_BYTES:
            copy = copy if source.known.head_bytes else first_as_long(source, candidates)
            if source.broken and copy is not None and copy.size >= source.sound_size:
                found[copy.identity] = copy
                self._report(f"{source.path} was {what}; {copy.path} may be its copy, and is read from its start")
                self.forget(source)
                return
            copy = None
        if copy is not None:
            left = copy.size - source.mark.position
            self._report(f"{source.path} was {what}; {copy.path} is its copy, {counted(left, 'byte')} left to read")
            self._descriptors.close(source)
            self._detach(source)
            source.copies.pop(copy.identity, None)
            source.path, _, _, source.size, source.modified = copy
            source.sound_size = source.size
            source.identity = copy.identity
            source.broken, source.verified, source.missed, source.stuck_at = False, True, 0, -1
            self.sources[source.identity] = source
            self.changed = True
        elif source.broken and (heir := followed_copy(self._descriptors, source, self.sources.values())):
            self._report(f"{source.path} was truncated; {heir.path} is its copy, and is read on its own")
            self.forget(source)
        elif source.broken or (source.file is None and not source.in_flight):
            source.copies.update(cut_short(self._files, source.known, candidates) if source.broken else {})
            self.give_up(source, not packed and self._is_doubtful(source, found), packed)

    def give_up(self, source: SourceFile, doubtful: bool = False, packed: str = "") -> None:
        """Forget a source that cannot be read on, now ``packed``, and report a loss, possible if ``doubtful``.

        While lines of it are in flight, a file that is gone stays in the state, as one that was read to its end; not a
        broken one, whose inode another file may have.
        """
        position = source.mark.position
        lost = max(0, source.sound_size - max(position, source.skip_to))
        gone = f"{source.path} was truncated or overwritten" if source.broken else f"{source.path} is gone"
        if packed:
            gone = f"{source.path} was compressed (now {packed}, which is skipped)"
        read = f"{gone}: it was read up to byte {position}"
        if lost:
            after = " after that" if source.broken else ""
            self._losses.add(f"{read}; lost{after}: at least {counted(lost, 'byte')}", lost)
        elif doubtful:
            self._losses.add(f"{read}; any later lines, written while no collector ran, are lost")
        elif source.broken and not packed and source.sound_size:
            self._report(f"{gone}, reading from its start")
        if source.pending and not source.broken and not source.copies:
            self._descriptors.close(source)
            source.size = source.sound_size = position
            self.changed = True
            return
        if not source.copies:
            self._losses.watch(source)
        self.forget(source)

    def settle(self) -> None:
        """Count lines of gone files that are not acknowledged at the end of the run as lost."""
        self._losses.settle()

    def _compare_copies(self, found: dict[Identity, Seen]) -> None:
        """Compare the copies that have changed, and follow those that are no longer copies."""
        for source in list(self.sources.values()):
            for identity, before in list(source.copies.items()):
                seen = found.get(identity)
                if seen is None:
                    if not is_hidden(self._files, before):
                        del source.copies[identity]
                elif seen[3:] != before[3:]:
                    if is_copy(self._files, self._descriptors, source, seen):
                        source.copies[identity] = seen
                    else:
                        del source.copies[identity]
                        self._adopt(before, source)

    def _adopt(self, copy: Seen, of: SourceFile) -> None:
        """Follow a former copy from where it was last compared, but not beyond what is acknowledged of the original."""
        if copy.identity in self.sources:
            return
        source = SourceFile(copy.path, copy.identity, copy.path)
        try:
            file = self._descriptors.get(source)
            if file is not None:
                place = of.acknowledged.position
                if place > copy.size:  # an unfinished copy may end within a line
                    place = line_start(file, copy.size, LOOK_BACK_BYTES)
                source.mark = source.acknowledged = mark_at(file, place)
                source.size = source.sound_size = file.seen().size
                self.add(source)
        except OSError:
            self._descriptors.close(source)  # the next look identifies it, if it still exists

    def _find_again(self, source: SourceFile) -> None:
        """Find a new file that was renamed since it was listed: nothing but its inode identifies it yet."""
        inode = source.identity[1]
        for seen in self._files.in_folder(dirname(source.path), lambda _, each: each == inode) or ():
            if seen.identity == source.identity and not is_compressed(seen.path):
                source.path, _, _, source.size, source.modified = seen
                source.sound_size, source.trouble = seen.size, ""
                self._verify(source)

    def _unknown(self, found: dict[Identity, Seen]) -> list[Seen]:
        """Return the files that are neither sources nor copies of sources."""
        known = {*self.sources, *self._copied()}
        return [seen for key, seen in found.items() if key not in known]

    def _add_new(self, unknown: list[Seen], now: float) -> list[SourceFile]:
        """Follow the files that are no copies, the oldest of a name first, but no empty one that may become a copy."""
        apart, first_bytes = set[Identity](), FirstBytes(self._files, self._descriptors)
        for seen, source in relatives(unknown, self.sources.values()):
            if not seen.size:
                if seen.path not in self.by_name:
                    apart.add(seen.identity)
            elif seen.identity not in apart and first_bytes.is_copy(source, seen):
                source.copies[seen.identity] = seen
                apart.add(seen.identity)
                self.changed = True
        new = []
        names = {seen.path for seen in unknown} | set(self.by_name) if unknown else set()
        for seen in unknown:
            if seen.identity not in apart:
                source = SourceFile(self._rotated.name_of(seen.path, names), seen.identity, seen.path)
                source.size, source.modified, source.changed_at = seen.size, seen.modified, now
                source.sound_size = seen.size
                self._verify(source)
                if source.file is None:
                    self._find_again(source)
                self.add(source)
                new.append(source)
        for name in {source.name for source in new}:
            self.by_name[name].sort(key=lambda source: self._rotated.age(source.path, source.name))
        return new
