"""One partition's log: append, read, and the positions up to which it is flushed and visible.

    start ............ visible_end ......... flushed_end ......... end
      readers see this              on the disk            in the page cache

What the disk decides goes by ``flushed_end``: what is synced next, the mark, checkpoints, the index's last chunk, which
files may be closed, and the end that is stored in the coordination tree. What readers may learn goes by
``visible_end``: fetches, waiters, Offsets, looking for entries and times. Retention goes by it too, since the log must
not begin behind what readers see. An acknowledgement with acks=-1 waits for it, as each in-sync replica has all before
it on its disk.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Iterable, Sequence

from attrs import define, field

from logd.config import LogSettings
from logd.errors import LogdError, OffsetOutOfRange, PartitionOffline, StorageFull, UnknownError
from logd.interfaces import IFlushListener
from logd.leadership import PartitionLeadership
from logd.log.disk.errors import PASSING, append_refusal
from logd.log.disk.names import join, segment_name
from logd.log.disk.open_files import FileRange
from logd.log.flusher import FlushState, FlushTask
from logd.log.index import lookup
from logd.log.legacy_offsets import offsets_before
from logd.log.offline_reasons import not_appended, not_flushed
from logd.log.partition_context import PartitionContext
from logd.log.recovery.checkpoint import Checkpoint
from logd.log.retention import count_expired, last_is_expired
from logd.log.segments import SegmentList
from logd.log.unreadable import UnreadablePlaces
from logd.log.unsynced import Unsynced
from logd.log.waiters import VisibilityWaiters, Wait
from logd.log.writer import SegmentWriter, create_segment


@define(eq=False)
class PartitionLog:
    """Owner thread only, but for the methods that say that they block: those may be called on any thread."""

    topic: str
    partition: int
    folder: str
    settings: LogSettings
    _around: PartitionContext
    segment_list: SegmentList
    _writer: SegmentWriter
    #: Where the log begins, and where the next append goes. Positions, as the next two.
    start: int
    end: int
    #: Who leads the partition, and which replicas are in sync.
    leadership: PartitionLeadership
    #: Up to where this broker's own disk has the log.
    flushed_end: int = field(init=False)
    #: Up to where readers may see the log: never behind ``flushed_end``.
    visible_end: int = field(init=False)
    #: The last checkpoint on the disk, None if there is none.
    checkpoint: Checkpoint | None = None
    #: Why the partition cannot be served, None when it can.
    offline: BaseException | None = None
    #: Which files are missing or short while the partition is served, empty when none is.
    loss: str = ""
    #: When an append was last refused for want of room, in seconds of the clock; None since a later one was flushed.
    refused_full: float | None = None
    flush_state: FlushState = field(factory=FlushState, init=False)
    _unsynced: Unsynced = field(factory=Unsynced)
    _waiters: VisibilityWaiters = field(init=False)
    _unreadable: UnreadablePlaces = field(factory=UnreadablePlaces)
    #: Files of expired segments that are still to be removed.
    _expired: list[int] = field(factory=list)
    _seconds: Callable[[], float] = field(init=False)
    _wall: Callable[[], float] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.flushed_end = self.end
        self.visible_end = self.start
        self._move_visible_end()
        self.flush_state.limit(self.settings.flush_messages, self.settings.flush_ms)
        self._waiters = VisibilityWaiters(self._listener_raised)
        self._seconds = self._around.clock.seconds
        self._wall = self._around.wall
        self._writer.configure(self.settings)
        self._writer_made(self._writer)

    @property
    def unflushed_bytes(self) -> int:
        """Bytes appended and not yet flushed."""
        return self.end - self.flushed_end

    @property
    def roll_above(self) -> int:
        """An append that begins at an offset above this one begins a new segment."""
        return self._writer.roll_above

    @property
    def last_segment_start(self) -> int:
        """Offset at which the segment begins that is appended to."""
        return self._writer.segment.start

    def configure(self, settings: LogSettings) -> None:
        """Use other settings from now on."""
        self.settings = settings
        self._writer.configure(settings)
        self.flush_state.limit(settings.flush_messages, settings.flush_ms)
        self._around.flusher.limits_changed(self)

    def append(self, sets: Sequence[bytes], messages: int, newest_timestamp: int) -> int:
        """Append message sets as one gathered write; return the id of the first message.

        ``messages`` counts those of all sets; ``newest_timestamp`` is their highest in ms, -1 if none has one. The sets
        must have been checked. On StorageFull, PartitionOffline and UnknownError (it may pass) nothing of them stays;
        only a loss of power before the next flush may bring it back, as one more copy of what the producer sends again.
        """
        if self.offline is not None:
            raise self._offline_error()
        now = self._wall()
        writer = self._writer
        first = self.end
        if first > writer.roll_above or now >= writer.roll_at:
            writer = self._roll(now)
        try:
            count = writer.append(sets, newest_timestamp, now)
        except OSError as error:
            raise self._append_error(error) from error
        self.end = first + count
        self._around.flusher.appended(self, count, messages)
        return first

    def read(self, offset: int, max_bytes: int) -> FileRange | None:
        """Return the visible bytes from ``offset`` on, at most ``max_bytes`` and never past the segment's end.

        None where nothing is visible: from the visible end up to the log's end. The range must be closed. Opens a
        file when it is not open; reads nothing. Raises OffsetOutOfRange, PartitionOffline, UnknownError (may pass).
        """
        if self.offline is not None:
            raise self._offline_error()
        visible_end = self.visible_end
        if not self.start <= offset < visible_end:
            if visible_end <= offset <= self.end:
                return None
            raise OffsetOutOfRange(f"{self.folder}: offset {offset} is not between {self.start} and {self.end}")
        if max_bytes <= 0:
            return None
        if self._unreadable:
            visible_end = self._unreadable.clip(offset, visible_end, self._seconds())
        writer = self._writer
        base = writer.segment.start
        try:
            if offset >= base:
                shared = writer.shared or writer.open()
                shared.hold()
                limit = visible_end
            else:
                number = self.segment_list.find(offset)
                base = self.segment_list.starts[number]
                limit = min(self.segment_list.starts[number + 1], visible_end)
                path = join(self.folder, segment_name(base))
                shared = self._around.open_files.acquire(path, limit - base)
        except OSError as error:
            if error.errno not in PASSING and self._unreadable.note(base, str(error), self._seconds()):
                self._around.report("a segment of {folder} cannot be opened: {error}", folder=self.folder, error=error)
            raise UnknownError(f"cannot open a segment of {self.folder}: {error}") from error
        return FileRange(shared, offset - base, min(limit - offset, max_bytes), self, base)

    def cannot_read(self, offset: int, error: OSError) -> None:
        """Take note that a read at ``offset`` failed: for a while ``read`` stops short of it."""
        if self._unreadable.note(offset, str(error), self._seconds()):
            self._around.report(
                "{folder} cannot be read at offset {offset}: {error}", folder=self.folder, offset=offset, error=error
            )

    def forget_file(self, start: int) -> None:
        """Open the file of the closed segment that begins at ``start`` anew for the next reader: another is there."""
        self._around.open_files.forget(join(self.folder, segment_name(start)))
        self._unreadable.clear()
        self.loss = ""

    def forget_boundaries(self, start: int) -> None:
        """Believe the last segment's index no more, if that still begins at ``start``: gaps lie over boundaries."""
        if self._writer.segment.start == start:
            self._writer.index.clear()

    def note_loss(self, text: str) -> None:
        """Take note of files that were found to be missing or short; empty when none is."""
        if text and text != self.loss:
            self._around.report("{folder} has lost what was flushed: {text}", folder=self.folder, text=text)
        self.loss = text

    def closed_segment_end(self, offset: int) -> float:
        """Return where the segment that holds ``offset`` ends, infinity for the one that still grows."""
        return self.segment_list.closed_end(offset)

    def is_boundary_known(self, offset: int) -> bool:
        """Whether ``offset`` is known, without looking at the disk, to be where an entry begins (or the log ends)."""
        if offset in (self.visible_end, self.start, self.end) or self._writer.index.knows(offset):
            return True
        return self.segment_list.begins_at(offset)

    def snapshot(self, end: int) -> lookup.Snapshot:
        """Return the log up to ``end`` as it is now, for a thread to look into. Raises PartitionOffline."""
        if self.offline is not None:
            raise self._offline_error()
        # The end was read first: segments and index seen after it cover it.
        files, index = self._around.files, self._writer.index
        return lookup.Snapshot(files, self.folder, self.start, end, self.segment_list, index, self.settings.index_bytes)

    def find_boundary(self, offset: int) -> int:
        """Return the start of the entry that contains ``offset``. Blocks; see lookup.find_boundary."""
        return lookup.find_boundary(self.snapshot(self.visible_end), offset)

    def find_boundaries(self, offsets: Iterable[int]) -> Generator[tuple[int, int], None, None]:
        """Yield offsets with their entries' starts; each step blocks. See lookup.find_boundaries."""
        yield from lookup.find_boundaries(self.snapshot(self.visible_end), offsets)

    def position_at_time(self, time_ms: int) -> int:
        """Return the first position at or after a time. Blocks; see lookup.position_at_time."""
        return lookup.position_at_time(self.snapshot(self.visible_end), time_ms)

    def offsets_before(self, time_ms: int, max_count: int) -> list[int]:
        """Answer the Offsets request of 0.7; see offsets.offsets_before."""
        if self.offline is not None:
            raise self._offline_error()
        segments = [(segment.start, segment.modified * 1000) for segment in self.segment_list.segments]
        return offsets_before(segments, self.visible_end, self._wall() * 1000, time_ms, max_count)

    def segments(self) -> list[tuple[int, int, int]]:
        """Return start, bytes (unflushed ones too) and time of last change in ms of each segment."""
        return self.segment_list.describe(self.end)

    def wait_visible(self, position: int, listener: IFlushListener) -> Wait | None:
        """Call ``listener`` once when the visible end is at or past ``position``; the answer's ``cancel`` prevents it.

        Called before this returns, and None is the answer, when that is so already or the partition is offline.
        """
        if self.offline is not None:
            listener.failed(self._offline_error())
        elif position <= self.visible_end:
            listener.visible(self.visible_end)
        else:
            return self._waiters.add(position, listener)
        return None

    def go_offline(self, error: BaseException, *, reported: bool = True) -> None:
        """Serve no more, and tell those who wait why. The first reason stays; an operator is told if ``reported``."""
        if self.offline is None:
            self.offline = error
            if reported:
                self._around.report("{folder} goes offline: {error}", folder=self.folder, error=error)
            self._around.flusher.forget(self)
            self._waiters.fail(self._offline_error())

    # For the flusher, the upkeep and the store.

    def names_are_new(self, folders: Sequence[str]) -> None:
        """Sync these folders, too, before anything more becomes visible."""
        self._unsynced.add_folders(folders)

    def begin_sync(self) -> FlushTask:
        """See Flushable."""
        writer = self._writer
        last = writer.shared if self.end > max(writer.segment.start, self.flushed_end) else None
        return self._unsynced.begin(self._around.files, last, self.end, self.folder)

    def end_sync(self, sync: FlushTask, error: BaseException | None) -> None:
        """See Flushable. After an error the kernel may have thrown the bytes away: never sync that file again."""
        for shared in sync.files:
            shared.release()
        if self.offline is None:
            if error is not None:
                self.go_offline(not_flushed(self.folder, error))
            else:
                if sync.end > self.flushed_end:
                    self.flushed_end = sync.end
                    self.refused_full = None
                    self._move_visible_end()
                    self._around.flushed(self)
        self._unsynced.over()

    @property
    def is_syncing(self) -> bool:
        """Whether a thread is at this partition's files."""
        return self._unsynced.is_syncing

    def when_settled(self, done: Callable[[], None]) -> None:
        """Call ``done`` once when the sync under way is over, with whatever comes of it."""
        self._unsynced.when_over(done)

    def announce(self) -> None:
        """See Flushable."""
        if self.offline is None:
            self._waiters.reached(self.visible_end)

    def expire(self) -> int:
        """Take segments out of the log that retention lets go; return how many. Their files are removed later."""
        if self.offline is not None:
            return 0
        now = self._wall()
        if last_is_expired(self.segment_list, self.end, self.visible_end, now, self.settings):
            try:
                self._roll(now)
            except LogdError as error:  # a full disk: all the more reason to remove what can be
                self._around.report("cannot begin a new segment: {error}", error=error)
        count = count_expired(self.segment_list, self.visible_end, now, self.settings)
        if count:
            expired = self.segment_list.starts[:count]
            self.segment_list = self.segment_list.without_first(count)
            self.start = self.segment_list.starts[0]
            self._expired.extend(expired)
            for start in expired:
                self._around.open_files.forget(join(self.folder, segment_name(start)))
        return count

    def begin_upkeep(self) -> tuple[Checkpoint, list[int]] | None:
        """Return the checkpoint to write, then the starts of segments whose files to remove; None: nothing to do."""
        if self.offline is not None:
            return None
        checkpoint = Checkpoint(self.start, self.flushed_end)
        # Where nothing ever was there is nothing to vouch for: thousands of empty logs would cost thousands of syncs.
        if checkpoint == (self.checkpoint or Checkpoint(0, 0)) and not self._expired:
            return None
        return checkpoint, list(self._expired)

    def end_upkeep(self, checkpoint: Checkpoint, removed: Sequence[int]) -> None:
        """Note what ``begin_upkeep`` said as done."""
        self.checkpoint = checkpoint
        self._expired = [start for start in self._expired if start not in removed]

    def finish(self) -> None:
        """Write what only memory has of the last segment's index; call when all is flushed. Never raises."""
        if self.offline is None and self.end == self.flushed_end:
            self._writer.finish()

    def close_idle(self) -> bool:
        """See openwriters.Closable."""
        idle = self.end == self.flushed_end and not self.is_syncing
        if idle:
            self._writer.close()
        else:
            self._around.flusher.gather_no_more(self)  # else thousands of files could stay open for a long flush.ms
        return idle

    def close(self) -> None:
        """Let go of all files."""
        self._writer.close()
        self._around.open_writers.closed(self)
        self._unsynced.close()

    def _move_visible_end(self) -> None:
        """Show readers what every in-sync replica has flushed: all that is flushed here while this one is alone."""
        if self.leadership.is_alone:
            self.visible_end = self.flushed_end

    def _roll(self, now: float) -> SegmentWriter:
        old = self._writer
        try:
            new = create_segment(self._around.files, self.folder, self.end, now)
        except OSError as error:
            raise self._append_error(error) from error
        new.configure(self.settings)
        self._writer_made(new)
        old.finish()
        if old.shared is not None and self.end > self.flushed_end:
            self._unsynced.add_file(old.shared)
        old.close()
        self.names_are_new([self.folder])
        self.segment_list = self.segment_list.with_last(new.segment)
        self._writer = new
        self._around.flusher.gather_no_more(self)  # a closed segment stays open until it is synced
        return new

    def _append_error(self, error: OSError) -> StorageFull | PartitionOffline | UnknownError:
        writer = self._writer
        refusal = None if writer.torn else append_refusal(self.folder, error)
        if refusal is None:
            self.go_offline(not_appended(self.folder, error, writer.torn))
            return self._offline_error()
        if isinstance(refusal, StorageFull):
            self.refused_full = self._seconds()
            if error.errno == errno.EFBIG and self.end > writer.segment.start:
                writer.roll_above = writer.segment.start  # this file may not grow, another one may
        return refusal

    def _writer_made(self, writer: SegmentWriter) -> None:
        writer.opened = lambda: self._around.open_writers.opened(self)
        if writer.shared is not None:
            writer.opened()

    def _listener_raised(self, text: str) -> None:
        self._around.report("a listener of {folder} failed: {traceback}", folder=self.folder, traceback=text)

    def _offline_error(self) -> PartitionOffline:
        return PartitionOffline(f"{self.topic}-{self.partition} is offline: {self.offline}")
