"""One partition's log: append, read, and the positions up to which it is flushed and visible.

    start ............ visible_end ......... flushed_end ......... end
      readers see this              on the disk            in the page cache

``flushed_end`` governs what depends on the disk: the next sync, the flush mark, checkpoints, the index's last chunk,
the choice of files to close, and the end that is stored in the coordination tree. ``visible_end`` governs what readers
may learn: fetches, waiters, Offsets, the search for entries and times. Only a fetch that begins inside an entry has the
start of that entry looked for up to ``end``, so that it can wait there. Retention uses the visible end too, since the
log must not begin behind what readers see. An acknowledgement with acks=-1 waits for the visible end, because every
in-sync replica has all bytes before it on its disk.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Iterable, Sequence

from attrs import define, field

from logd.config import LogSettings
from logd.errors import LogdError, OffsetOutOfRange, PartitionOffline, StorageFull, UnknownError
from logd.leadership import PartitionLeadership
from logd.log.disk.errors import append_refusal, is_too_many_files
from logd.log.disk.open_files import FileRange
from logd.log.flush_task import FlushTask
from logd.log.flusher import FlushState
from logd.log.index import lookup
from logd.log.legacy_offsets import offsets_before
from logd.log.offline_text import not_appended, not_flushed
from logd.log.partition_context import PartitionContext
from logd.log.recovery.checkpoint import Checkpoint
from logd.log.retention_rule import expire
from logd.log.segment_reads import SegmentReads
from logd.log.segments import SegmentList
from logd.log.unsynced import Unsynced
from logd.log.visibility.visible_log import VisibleLog
from logd.log.visibility.waiters import VisibilityWaiters
from logd.log.writer import SegmentWriter, create_segment


@define(eq=False)
class PartitionLog(VisibleLog):
    """The log of one partition. Owner thread only; methods that are said to block may be called on any thread."""

    topic: str
    partition: int
    folder: str
    settings: LogSettings
    _context: PartitionContext
    segment_list: SegmentList
    _writer: SegmentWriter
    #: The first position of the log, where an entry begins, and the position of the next append.
    start: int
    end: int
    #: The partition's leader and its in-sync replicas.
    leadership: PartitionLeadership
    #: The latest checkpoint on the disk, None if there is none.
    checkpoint: Checkpoint | None = None
    #: Messages before this position are deleted, also where it is inside the log's first entry.
    deleted_before: int = 0
    #: The reason why the partition cannot be served, None while it is served. Set by ``go_offline``, or at a start.
    offline: BaseException | None = None
    #: The files found to be missing or short while the partition is served, as text. Empty when there are none.
    loss: str = ""
    #: Time of the last append refused for lack of space, in seconds of the clock. None once a later append was flushed.
    refused_full: float | None = None
    flush_state: FlushState = field(factory=FlushState, init=False)
    _unsynced: Unsynced = field(factory=Unsynced)
    _reads: SegmentReads = field(init=False)
    #: Starts of the expired segments whose files are still to be removed.
    _expired: list[int] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.flushed_end = self.end
        self.visible_end = self.start
        if not self.leadership.is_alone:
            self.visible_limit = self.start  # until replication knows what other replicas have
        self._move_visible_end()
        self.flush_state.limit(self.settings.flush_messages, self.settings.flush_ms)
        self._waiters = VisibilityWaiters(self._listener_raised)
        self._reads = SegmentReads(self.folder, self._context)
        self._writer.configure(self.settings)
        self._writer_made(self._writer)

    @property
    def wall(self) -> Callable[[], float]:
        """Returns the time of day, in seconds since the epoch."""
        return self._context.wall

    @property
    def first(self) -> int:
        """The first position that clients may ask for: inside the first entry if messages of it were deleted."""
        return max(self.start, self.deleted_before)

    @property
    def unflushed_bytes(self) -> int:
        """Bytes appended and not yet flushed."""
        return self.end - self.flushed_end

    @property
    def roll_above(self) -> int:
        """The position above which an append begins a new segment."""
        return self._writer.roll_above

    @property
    def last_segment_start(self) -> int:
        """The start of the last segment, to which appends go."""
        return self._writer.segment.start

    def configure(self, settings: LogSettings) -> None:
        """Replace the settings."""
        self.settings = settings
        self._writer.configure(settings)
        self.flush_state.limit(settings.flush_messages, settings.flush_ms)
        self._context.flusher.limits_changed(self)

    def append(self, sets: Sequence[bytes | memoryview], messages: int, newest_timestamp: int) -> int:
        """Append message sets as one gathered write; return the id of the first message.

        ``messages`` is the number of messages in all sets, ``newest_timestamp`` their highest timestamp in ms, -1 if
        there is none. The sets must have been checked. Raises StorageFull, PartitionOffline, and UnknownError for a
        failure that may be temporary. The log is then as before. After a power loss before the next flush the bytes may
        reappear, as a duplicate of the message sets that the producer sends again.
        """
        if self.offline is not None:
            raise self._offline()
        now = self.wall()
        writer = self._writer
        first = self.end
        if first > writer.roll_above or now >= writer.roll_at:
            writer = self._roll(now)
        try:
            count = writer.append(sets, newest_timestamp, now)
        except OSError as error:
            raise self._append_error(error) from error
        self.end = first + count
        self.times.appended(self.end, newest_timestamp if newest_timestamp >= 0 else int(now * 1000))
        self._context.flusher.appended(self, count, messages)
        if self.replica is not None:
            self.replica.appended()
        return first

    def flush_soon(self) -> None:
        """Have all that is appended flushed as soon as a thread is free, whatever flush.messages and flush.ms say."""
        self._context.flusher.due_now(self)

    def read(self, position: int, max_bytes: int) -> FileRange | None:
        """Return the visible bytes from ``position`` on, at most ``max_bytes`` and never past the segment's end.

        None from the visible end up to the log's end. The caller closes the range. Opens the segment's file if
        necessary, but reads nothing. Raises OffsetOutOfRange, PartitionOffline, UnknownError (may be temporary).
        """
        return self._read(position, max_bytes, self.visible_end)

    def read_appended(self, position: int, max_bytes: int, limit: int) -> FileRange | None:
        """Return bytes like ``read``, up to ``limit`` and the log's end, visible or not: for followers."""
        return self._read(position, max_bytes, min(limit, self.end))

    def _read(self, position: int, max_bytes: int, visible_end: int) -> FileRange | None:
        if self.offline is not None:
            raise self._offline()
        if not self.start <= position < visible_end:
            if visible_end <= position <= self.end:
                return None
            raise OffsetOutOfRange(f"{self.folder}: position {position} is not between {self.start} and {self.end}")
        if max_bytes <= 0:
            return None
        return self._reads.open(self, self.segment_list, self._writer, position, visible_end, max_bytes)

    def cannot_read(self, position: int, error: OSError) -> None:
        """Record that a read at ``position`` failed: for a while ``read`` stops short of that position."""
        self._reads.failed(position, error)

    def forget_file(self, start: int) -> None:
        """Reopen the closed segment that begins at ``start`` for the next reader, because its file was replaced."""
        self._reads.replaced(start)
        self.loss = ""

    def forget_boundaries(self, start: int) -> None:
        """Clear the last segment's index if it still begins at ``start``: gaps now lie over its boundaries."""
        if self._writer.segment.start == start:
            self._writer.index.clear()

    def note_loss(self, text: str) -> None:
        """Record and report the files that were found to be missing or short; an empty ``text`` means none."""
        if text and text != self.loss:
            self._context.report("{folder} has lost what was flushed: {text}", folder=self.folder, text=text)
        self.loss = text

    def closed_segment_end(self, position: int) -> float:
        """Return the end of the segment that contains ``position``, infinity for the last segment."""
        return self.segment_list.closed_end(position)

    def is_boundary_known(self, position: int) -> bool:
        """Return whether an entry (or the log's end) is known to be at ``position``, without a look at the disk."""
        if position in (self.visible_end, self.start, self.end) or self._writer.index.knows(position):
            return True
        return self.segment_list.begins_at(position)

    def snapshot(self, end: int) -> lookup.Snapshot:
        """Return a snapshot of the log up to ``end`` that any thread may search. Raises PartitionOffline."""
        if self.offline is not None:
            raise self._offline()
        # The end was read first: segments and index seen after it cover it. While segments go, the start may be
        # that of one that is gone: its positions would be looked for in the last segment.
        files, index, segments = self._context.files, self._writer.index, self.segment_list
        start = max(self.start, segments.starts[0])
        return lookup.Snapshot(files, self.folder, start, end, segments, index, self.settings.index_bytes)

    def find_boundary(self, position: int) -> int:
        """Return the start of the entry that contains ``position``. Blocks; see lookup.find_boundary."""
        return lookup.find_boundary(self.snapshot(self.visible_end), position)

    def find_boundaries(self, positions: Iterable[int]) -> Generator[tuple[int, int], None, None]:
        """Yield (position, start of its entry) pairs; each step blocks. See lookup.find_boundaries."""
        yield from lookup.find_boundaries(self.snapshot(self.visible_end), positions)

    def position_at_time(self, time_ms: int) -> int:
        """Return the position of the first entry at or after a time. Blocks; see lookup.position_at_time."""
        return lookup.position_at_time(self.snapshot(self.visible_end), time_ms)

    def offsets_before(self, time_ms: int, max_count: int) -> list[int]:
        """Answer the Offsets request of 0.7; see legacy_offsets.offsets_before."""
        if self.offline is not None:
            raise self._offline()
        segments = [(max(each.start, self.start), each.modified * 1000) for each in self.segment_list.segments]
        return offsets_before(segments, self.visible_end, self.wall() * 1000, time_ms, max_count)

    def segments(self) -> list[tuple[int, int, int]]:
        """Return (start, bytes including unflushed ones, modification time in ms) of each segment."""
        return self.segment_list.describe(self.end)

    def go_offline(self, error: BaseException, *, reported: bool = True) -> None:
        """Stop serving, fail all waits, keep the first reason and log it if ``reported``: the only way offline."""
        if self.offline is None:
            self.offline = error
            if reported:
                self._context.report("{folder} goes offline: {error}", folder=self.folder, error=error)
            self._context.flusher.forget(self)
            self._waiters.fail(self._offline())
            if self.replica is not None:
                self.replica.went_offline()

    def stay_offline(self, error: BaseException) -> None:
        """Replace the reason of an offline partition, which could not be served again."""
        self.offline = error

    # For the flusher, the upkeep and the store

    def names_are_new(self, folders: Sequence[str]) -> None:
        """Include these folders in the next sync, before anything more becomes visible."""
        self._unsynced.add_folders(folders)

    def begin_sync(self) -> FlushTask:
        """See Flushable."""
        writer = self._writer
        last = writer.shared if self.end > max(writer.segment.start, self.flushed_end) else None
        return self._unsynced.begin(self._context.files, last, self.end, self.folder)

    def end_sync(self, sync: FlushTask, error: BaseException | None) -> bool:
        """See Flushable. After an error the kernel may have dropped the bytes, so that file is never synced again.

        That is not so if too many files were open: then the disk was not asked for what failed.
        """
        again = self.offline is None and is_too_many_files(error)
        if again:
            self._unsynced.again(sync)
        else:
            self._synced(sync, error)
        self._unsynced.over()
        return again

    def _synced(self, sync: FlushTask, error: BaseException | None) -> None:
        for shared in sync.files:
            shared.release()
        if self.offline is None:
            if error is not None:
                self.go_offline(not_flushed(self.folder, error))
            elif sync.end > self.flushed_end:
                self.flushed_end = sync.end
                self.refused_full = None
                self._move_visible_end()
                self._context.flushed(self)
                if self.replica is not None:
                    self.replica.flushed()

    @property
    def is_syncing(self) -> bool:
        """Return whether a sync of this partition's files is under way."""
        return self._unsynced.is_syncing

    def when_settled(self, done: Callable[[], None]) -> None:
        """Call ``done`` once the sync under way has ended, whatever its outcome."""
        self._unsynced.when_over(done)

    def expire(self) -> int:
        """Remove expired segments from the log and return how many; upkeep removes their files later."""
        return expire(self) if self.offline is None else 0

    def remove_first(self, count: int) -> None:
        """Remove the first segments from the log, and leave their files to upkeep."""
        if count > 0:
            removed = self.segment_list.starts[:count]
            self.segment_list = self.segment_list.without_first(count)
            self.start = max(self.start, self.segment_list.starts[0])
            self._expired.extend(removed)
            for start in removed:
                self._reads.removed(start)

    def try_to_roll(self, now: float) -> None:
        """Begin a new segment so that the last one can be removed; on a full disk the older ones are all the same."""
        try:
            self._roll(now)
        except LogdError as error:
            self._context.report("cannot begin a new segment in {folder}: {error}", folder=self.folder, error=error)

    def begin_upkeep(self) -> tuple[Checkpoint, list[int]] | None:
        """Return the checkpoint to write and the starts of the segments to remove, None if nothing is to be done."""
        if self.offline is not None:
            return None
        checkpoint = Checkpoint(self.start, self.flushed_end, self.first)
        # An empty log needs no checkpoint: thousands of empty logs would cost thousands of syncs.
        if checkpoint == (self.checkpoint or Checkpoint(0, 0)) and not self._expired:
            return None
        return checkpoint, list(self._expired)

    def end_upkeep(self, checkpoint: Checkpoint, removed: Sequence[int]) -> None:
        """Record that the upkeep returned by ``begin_upkeep`` is done."""
        self.checkpoint = checkpoint
        self._expired = [start for start in self._expired if start not in removed]

    def finish(self) -> None:
        """Write the unwritten part of the last segment's index; call this when all is flushed. Never raises."""
        if self.offline is None and self.end == self.flushed_end:
            self._writer.finish()

    def close_idle(self) -> bool:
        """See open_writers.Closable."""
        idle = self.end == self.flushed_end and not self.is_syncing
        if idle:
            self._writer.close()
        else:
            self._context.flusher.gather_no_more(self)  # else thousands of files could stay open for a long flush.ms
        return idle

    def close(self) -> None:
        """Release all files. Those kept for readers too: another log may have files of the same names."""
        self._writer.close()
        self._context.open_writers.closed(self)
        self._unsynced.close()
        for start in self.segment_list.starts:
            self._reads.removed(start)

    def _roll(self, now: float) -> SegmentWriter:
        old = self._writer
        try:
            new = create_segment(self._context.files, self.folder, self.end, now)
        except OSError as error:
            raise self._append_error(error) from error
        new.configure(self.settings)
        self._writer_made(new)
        old.finish()
        if old.shared is not None and not self._unsynced.covers(self.end, self.flushed_end):
            self._unsynced.add_file(old.shared)
        old.close()
        self.names_are_new([self.folder])
        self.segment_list = self.segment_list.with_last(new.segment)
        self._writer = new
        self._context.flusher.gather_no_more(self)  # a closed segment stays open until it is synced
        return new

    def _append_error(self, error: OSError) -> StorageFull | PartitionOffline | UnknownError:
        writer = self._writer
        refusal = None if writer.torn else append_refusal(self.folder, error)
        if refusal is None:
            self.go_offline(not_appended(self.folder, error, writer.torn))
            return self._offline()
        if isinstance(refusal, StorageFull):
            self.refused_full = self._context.clock.seconds()
            if error.errno == errno.EFBIG and self.end > writer.segment.start:
                writer.roll_above = writer.segment.start  # this file may not grow, another one may
            elif self.replica is not None:
                self.replica.refused_full()
        return refusal

    def _writer_made(self, writer: SegmentWriter) -> None:
        writer.opened = lambda: self._context.open_writers.opened(self)
        if writer.shared is not None:
            writer.opened()

    def _listener_raised(self, text: str) -> None:
        self._context.report("a listener of {folder} failed: {traceback}", folder=self.folder, traceback=text)

    def _offline_error(self) -> PartitionOffline | None:
        return None if self.offline is None else self._offline()

    def _offline(self) -> PartitionOffline:
        return PartitionOffline(f"{self.topic}-{self.partition} is offline: {self.offline}")
