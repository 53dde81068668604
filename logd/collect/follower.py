"""The state machine that follows files: checks them regularly, and reads new data from each in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from attrs import define, field, frozen

from logd.collect.cutting import LineTooLong, Rules, cut
from logd.collect.descriptors import Descriptors
from logd.collect.file_tracker import FileTracker
from logd.collect.files import Files
from logd.collect.read_mark import line_start, mark_at, moved, read_on
from logd.collect.source import Piece, SourceFile
from logd.collect.state import State
from logd.plurals import counted

#: Bytes read at a time (more if a line may be longer): large enough to make the cost of a call negligible.
CHUNK_BYTES = 256 << 10
#: The most that one step reads, in bytes and in pieces, so that sending goes on meanwhile.
STEP_BYTES = 512 << 10
STEP_PIECES = 256


def _nothing_excluded(_: str) -> bool:
    return False


def _none_unmatched(_: float) -> list[str]:
    return []


@frozen(kw_only=True)
class FollowSettings:
    """The settings of a follower."""

    #: Shell patterns, with ``**``; absolute, since the state does not contain the working directory.
    patterns: Sequence[str]
    rules: Rules
    #: Returns True for a path that is not to be read.
    excluded: Callable[[str], bool] = _nothing_excluded
    #: Seconds between checks of the files.
    poll: float = 1.0
    #: Files held open at a time.
    open_files: int = 64
    #: Seconds after which an unfinished last line is sent as it is; None: never, while its file exists.
    flush_partial: float | None = None
    #: Seconds without a change after which a file without a name is closed: its writer may still be using it.
    gone: float = 30.0
    #: Begin at the end of the files found by the first look.
    from_end: bool = False
    #: Read only what the first look finds.
    once: bool = False
    #: Called at each look with the time; returns notices about FILEs that match nothing.
    unmatched: Callable[[float], list[str]] = _none_unmatched


@define
class Harvest:
    """The result of one step."""

    pieces: list[Piece] = field(factory=list)
    #: Notices for the operator, of one line each.
    notices: list[str] = field(factory=list)
    #: True when there is nothing to read before the next look.
    idle: bool = False


class Follower:
    """Finds files and reads them. Use from one thread at a time; calls may block on the disk."""

    def __init__(
        self,
        files: Files,
        clock: Callable[[], float],
        settings: FollowSettings,
        restored: State | None = None,
    ) -> None:
        """``restored`` is the state of an earlier run; ``clock`` returns seconds."""
        self._clock = clock
        self._settings = settings
        self._notices: list[str] = []
        self._descriptors = Descriptors(files, settings.open_files)
        self.tracker = FileTracker(
            files, settings.patterns, settings.excluded, self._descriptors, self._notices.append, restored
        )
        self._from_end = settings.from_end
        self._next_look: float | None = None
        self._look_now = True
        #: Names that may have something to read, in the order in which they are read next.
        self._to_read: deque[str] = deque()
        #: Bytes of over-long lines that were skipped.
        self.skipped = 0
        #: True when a FILE has matched nothing in a look.
        self.unmatched = False

    @property
    def seconds_to_look(self) -> float:
        """Seconds until the next look is due."""
        return 0.0 if self._look_now or self._next_look is None else max(0.0, self._next_look - self._clock())

    @property
    def behind(self) -> int:
        """The bytes that were seen and are not read yet."""
        return sum(source.unread for source in self.tracker.sources.values())

    def step(self, read: bool = True) -> Harvest:
        """Look if a look is due, and read if ``read``. Raises LineTooLong."""
        now = self._clock()
        harvest = Harvest()
        if self._look_now or (not self._settings.once and self.seconds_to_look == 0.0):
            self._look(now)
        total = 0
        while read and total < STEP_BYTES and len(harvest.pieces) < STEP_PIECES:
            source = self._next()
            if source is None:
                break
            self._to_read.rotate(-1)
            piece = self._read(source)
            if piece is not None:
                harvest.pieces.append(piece)
                total += piece.bytes
        harvest.notices = self._notices[:]
        self._notices.clear()
        harvest.idle = self._next() is None and not self._look_now
        return harvest

    def settle(self) -> list[str]:
        """Count what can never be sent again and is not acknowledged as lost; return the notices of that."""
        self.tracker.settle()
        notices = self._notices[:]
        self._notices.clear()
        return notices

    def close(self) -> None:
        """Close every file."""
        self._descriptors.close_all()

    def _look(self, now: float) -> None:
        self._look_now = False
        self._next_look = now + self._settings.poll
        unmatched = self._settings.unmatched(now)
        self.unmatched |= bool(unmatched)
        self._notices.extend(unmatched)
        new = self.tracker.look(now)
        if self._from_end:
            self._from_end = False
            for source in new:
                source.skip_to = source.size
        settings = self._settings
        for source in list(self.tracker.sources.values()):
            if source.skip_to:
                self._skip(source)
            quiet = now - source.changed_at
            if source.missed and not source.ready and (settings.once or quiet >= settings.gone):
                if source.unread and not source.trouble and not source.flush:
                    source.flush = True  # the line will never be finished
                elif not source.in_flight:
                    self.tracker.give_up(source)
            elif settings.flush_partial is not None and source.unread and quiet >= settings.flush_partial:
                source.flush = True
            if source.ready and source.file is None and self._descriptors.has_room:
                self._open(source)  # even if it is not read now: an open file stays readable without a name
        waiting = set(self._to_read)
        for name, sources in self.tracker.by_name.items():
            if name not in waiting and any(source.ready for source in sources):
                self._to_read.append(name)

    def _open(self, source: SourceFile) -> None:
        try:
            self._descriptors.get(source)
        except OSError as error:
            self.tracker.trouble(source, error)

    def _skip(self, source: SourceFile) -> None:
        """Skip what a file had in the first look, except an unfinished last line; later, if it cannot be read now."""
        try:
            file = self._descriptors.get(source)
            if file is None:  # another file has the path: the next look finds this one
                source.trouble = "moved"
                self._look_now = True
                return
            source.size = source.sound_size = file.seen().size
            end = min(source.skip_to, source.size)
            source.mark = source.acknowledged = mark_at(file, line_start(file, end, self._window))
            source.skip_to = 0
            self.tracker.changed = True
        except OSError as error:
            self.tracker.trouble(source, error)

    def _next(self) -> SourceFile | None:
        """Return the source to read next. Of one name the oldest is read to its end before its successor."""
        names = self._to_read
        while names:
            for source in self.tracker.by_name.get(names[0], ()):
                if source.ready:
                    return source
            names.popleft()
        return None

    @property
    def _window(self) -> int:
        """The bytes to read at a time: enough to detect an over-long line."""
        return max(CHUNK_BYTES, self._settings.rules.limit + 1)

    def _read(self, source: SourceFile) -> Piece | None:
        window = self._window
        try:
            file = self._descriptors.get(source)
            if file is None:  # another file has the path: the next look finds this one
                source.trouble = "moved"
                self._look_now = True
                return None
            data, before = read_on(file, source.known, window)
        except OSError as error:
            self.tracker.trouble(source, error)
            return None
        if data is None:
            source.broken = True
            self._look_now = True
            return None
        position = source.mark.position
        at_end = len(data) < window
        if at_end:
            source.size = position + len(data)
        source.sound_size = position + len(data) if at_end else max(source.sound_size, position + len(data))
        rules = self._settings.rules
        try:
            found = cut(data, rules, source.flush and at_end, source.skipping)
        except LineTooLong as error:
            raise LineTooLong(f"{source.path}, after byte {position}: {error}; see --long-lines") from None
        left = len(data) - found.used
        if at_end and left <= (0 if source.flush else rules.limit):
            source.stuck_at = source.size
            source.flush = False
        self._count_skipped(source, found.skipped, found.skipping)
        if not found.used:
            return None
        source.mark = moved(source.mark, data, found.used, before)
        if found.skipping:
            return None  # if this run ends here, the next one begins with this line again
        return Piece(source, found.lines, source.mark, found.used)

    def _count_skipped(self, source: SourceFile, count: int, more: bool) -> None:
        source.skipped += count
        if source.skipped and not more:
            self._notices.append(f"{source.path}: over-long lines were skipped, {counted(source.skipped, 'byte')}")
            self.skipped += source.skipped
            source.skipped = 0
