"""The state machine that follows files: looks at them now and then, and reads what is new in turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from attrs import define, field, frozen

from logd.collect.cutting import LineTooLong, Rules, cut
from logd.collect.descriptors import Descriptors
from logd.collect.file_identity import Catalogue
from logd.collect.files import Files
from logd.collect.mark import line_start, mark_at, moved, read_on
from logd.collect.source import Piece, SourceFile
from logd.collect.state import State

#: Bytes read at a time (more where a line may be longer): large enough that a call for each does not count.
CHUNK_BYTES = 256 << 10
#: One step reads at most this, in bytes and in pieces, so that the other end is fed meanwhile.
STEP_BYTES = 512 << 10
STEP_PIECES = 256


def _nothing_excluded(_: str) -> bool:
    return False


def _none_unmatched(_: float) -> list[str]:
    return []


@frozen(kw_only=True)
class FollowSettings:
    """What is followed, and how."""

    #: As of a shell, with ``**``; absolute, as the current folder is no part of what is remembered.
    patterns: Sequence[str]
    rules: Rules
    #: Says of a path that it is not to be read.
    excluded: Callable[[str], bool] = _nothing_excluded
    #: Seconds between looks.
    poll: float = 1.0
    #: Files held open at a time.
    open_files: int = 64
    #: Seconds after which an unfinished last line is taken as it is; None: never, while its file is there.
    flush_partial: float | None = None
    #: Seconds without a change after which a file that lost its name is let go; its writer may not know yet.
    gone: float = 30.0
    #: Begin at the end of the files that are there at the first look.
    from_end: bool = False
    #: Read what is there at the first look, and no more.
    once: bool = False
    #: Asked at each look, with the time, for lines about FILEs that match nothing.
    unmatched: Callable[[float], list[str]] = _none_unmatched


@define
class Harvest:
    """What one step brought."""

    pieces: list[Piece] = field(factory=list)
    #: Lines for a person.
    notices: list[str] = field(factory=list)
    #: Whether there is nothing to read before the next look.
    idle: bool = False


class Follower:
    """Finds and reads. Not for two threads at a time; its calls may wait for a disk."""

    def __init__(
        self,
        files: Files,
        clock: Callable[[], float],
        settings: FollowSettings,
        restored: State | None = None,
    ) -> None:
        """``restored``: the memory of an earlier run. ``clock`` gives seconds."""
        self._clock = clock
        self._settings = settings
        self._notices: list[str] = []
        self._descriptors = Descriptors(files, settings.open_files)
        self.catalogue = Catalogue(
            files, settings.patterns, settings.excluded, self._descriptors, self._notices.append, restored
        )
        self._from_end = settings.from_end
        self._next_look: float | None = None
        self._look_now = True
        #: Names that may have something to read, in turns.
        self._turns: deque[str] = deque()
        #: Bytes of over-long lines that were left out.
        self.skipped = 0
        #: Whether a FILE matched nothing when that was last looked at.
        self.unmatched = False

    @property
    def seconds_to_look(self) -> float:
        """Seconds until the next look is due."""
        return 0.0 if self._look_now or self._next_look is None else max(0.0, self._next_look - self._clock())

    @property
    def behind(self) -> int:
        """Bytes that were seen and are not read yet."""
        return sum(source.unread for source in self.catalogue.sources.values())

    def step(self, read: bool = True) -> Harvest:
        """Look, if it is time to, and read something, if ``read``. Raises LineTooLong."""
        now = self._clock()
        harvest = Harvest()
        if self._look_now or (not self._settings.once and self.seconds_to_look == 0.0):
            self._look(now)
        total = 0
        while read and total < STEP_BYTES and len(harvest.pieces) < STEP_PIECES:
            source = self._next()
            if source is None:
                break
            self._turns.rotate(-1)
            piece = self._read(source)
            if piece is not None:
                harvest.pieces.append(piece)
                total += piece.bytes
        harvest.notices = self._notices[:]
        self._notices.clear()
        harvest.idle = self._next() is None and not self._look_now
        return harvest

    def close(self) -> None:
        """Close every file."""
        self._descriptors.close_all()

    def _look(self, now: float) -> None:
        self._look_now = False
        self._next_look = now + self._settings.poll
        unmatched = self._settings.unmatched(now)
        self.unmatched |= bool(unmatched)
        self._notices.extend(unmatched)
        new = self.catalogue.look(now)
        if self._from_end:
            self._from_end = False
            for source in new:
                self._to_end(source)
        settings = self._settings
        for source in list(self.catalogue.sources.values()):
            quiet = now - source.changed_at
            if source.missed and not source.ready and (settings.once or quiet >= settings.gone):
                if source.unread and not source.trouble and not source.flush:
                    source.flush = True  # nobody will finish that line
                else:
                    self.catalogue.give_up(source)
            elif settings.flush_partial is not None and source.unread and quiet >= settings.flush_partial:
                source.flush = True
            if source.ready and source.file is None and self._descriptors.has_room:
                self._open(source)  # even if it cannot be read now: what is open stays, whatever becomes of its name
        waiting = set(self._turns)
        for name, sources in self.catalogue.by_name.items():
            if name not in waiting and any(source.ready for source in sources):
                self._turns.append(name)

    def _open(self, source: SourceFile) -> None:
        try:
            self._descriptors.get(source)
        except OSError as error:
            self.catalogue.trouble(source, error)

    def _to_end(self, source: SourceFile) -> None:
        """Skip what is there, but for an unfinished line."""
        try:
            file = self._descriptors.get(source)
            if file is not None:
                source.size = source.sound_size = file.seen().size
                source.mark = source.acknowledged = mark_at(file, line_start(file, source.size, self._window))
        except OSError as error:
            self.catalogue.trouble(source, error)

    def _next(self) -> SourceFile | None:
        """Whose turn it is. Of one name the oldest first: a rotated file is read to its end before its successor."""
        turns = self._turns
        while turns:
            for source in self.catalogue.by_name.get(turns[0], ()):
                if source.ready:
                    return source
            turns.popleft()
        return None

    @property
    def _window(self) -> int:
        """Bytes to read at a time: an over-long line has to show that it is."""
        return max(CHUNK_BYTES, self._settings.rules.limit + 1)

    def _read(self, source: SourceFile) -> Piece | None:
        window = self._window
        try:
            file = self._descriptors.get(source)
            if file is None:  # another file is there: where this one is the next look finds out
                source.trouble = "moved"
                self._look_now = True
                return None
            data, before = read_on(file, source.mark, window)
        except OSError as error:
            self.catalogue.trouble(source, error)
            return None
        if data is None:
            source.broken = True
            self._look_now = True
            return None
        position = source.mark.position
        at_end = len(data) < window
        if at_end:
            source.size = position + len(data)
        source.sound_size = max(source.size, position + len(data))
        rules = self._settings.rules
        try:
            found = cut(data, rules, source.flush and at_end, source.skipping)
        except LineTooLong as error:
            raise LineTooLong(f"{source.path}, behind byte {position}: {error}; see --long-lines") from None
        left = len(data) - found.used
        if at_end and left <= (0 if source.flush else rules.limit):
            source.stuck_at = source.size
            source.flush = False
        self._count_skipped(source, found.skipped, found.skipping)
        if not found.used:
            return None
        source.mark = moved(source.mark, data, found.used, before)
        if found.skipping:
            return None  # if this is the last that is heard of it, the next run begins with that line again
        return Piece(source, found.lines, source.mark, found.used)

    def _count_skipped(self, source: SourceFile, count: int, more: bool) -> None:
        source.skipping = more
        source.skipped += count
        if source.skipped and not more:
            self._notices.append(f"{source.path}: over-long lines were left out, {source.skipped} bytes")
            self.skipped += source.skipped
            source.skipped = 0
