"""The choice whether waiting partitions share one sync of their file system, by the measured cost of both ways."""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import define, field

from logd.interfaces import Clock, IFileOperations, IFileSystem, Timer

#: Fewer waiting partitions are synced one by one: that costs about as much, and each is answered sooner.
LEAST_GROUP = 8
#: Partitions beyond this number wait for the next group, so that answering them does not hold up the owner thread: each
#: takes some 50 microseconds of its time.
MOST_GROUP = 500
#: A sync of the file system also writes the data of other programs. Above this many bytes, beside those of the broker
#: itself, partitions are synced one by one: at 100 MB/s the others' data would take a third of a second.
OTHERS_BYTES = 32 << 20
#: The dirty bytes of a waiting partition beside its messages: rest of the last page of its segment, and its flush mark.
PAGES_BYTES = 2 * 4096
#: A group may take this many times as long as its partitions would have one by one: of a processor's time it takes less
#: than a tenth of what they do.
SLOWER_FACTOR = 2.0
#: Partitions wait for the end of a group that was begun at most this many seconds ago, to share the next one.
LONGEST_HOLD_SECONDS = 0.5
#: After a group that was slower than that, none begins for this many times its duration, so that at most a twentieth of
#: the time is spent on trying again; but the pause ends once syncs one by one have become the slower ones.
PAUSE_FACTOR = 20.0
LONGEST_PAUSE_SECONDS = 60.0
#: The pause while other programs have much to write.
BUSY_PAUSE_SECONDS = 1.0
#: The share of the newest measurement in the moving average of one partition's sync.
_NEWEST = 0.2


@define(eq=False)
class GroupSyncs:
    """The choice between one sync for many partitions and one for each. Owner thread only."""

    file_system: IFileSystem
    _clock: Clock
    #: Syncs at a time when partitions are synced one by one.
    _workers: int
    least: int = LEAST_GROUP
    #: Seconds of one partition's sync while no group is under way, a moving average; 0 before the first.
    _one_by_one: float = field(default=0.0, init=False)
    _not_before: float = field(default=0.0, init=False)
    #: Seconds for each partition of the group that a pause follows; infinity if no pause is due to a slow group.
    _slow: float = field(default=math.inf, init=False)
    _under_way: bool = field(default=False, init=False)
    #: The time when the last group was begun, and when the last one ended.
    _began: float = field(default=-math.inf, init=False)
    _ended: float = field(default=-math.inf, init=False)
    #: Ends the wait of partitions for a group that takes long.
    _hold: Timer | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)

    def allows(self, waiting: int, own_bytes: int) -> bool:
        """Return whether ``waiting`` partitions may share a sync now; ``own_bytes`` are unflushed in the broker."""
        if waiting < self.least or self._under_way or self._clock.seconds() < self._not_before:
            return False
        if self.file_system.dirty_bytes() > own_bytes + waiting * PAGES_BYTES + OTHERS_BYTES:
            self._not_before = self._clock.seconds() + BUSY_PAUSE_SECONDS
            self._slow = math.inf
            return False
        return True

    def holds(self, waiting: int) -> bool:
        """Return whether ``waiting`` partitions should share the next group, although a thread is free for one of them.

        One by one they would cost the processor more, and the group under way, which commits the same journal, time.
        """
        return self._under_way and waiting >= self.least and self._hold_left() > 0

    def after_hold(self, start: Callable[[], None]) -> None:
        """Call ``start`` once ``holds`` is over, unless the group ends before: nothing else may happen meanwhile."""
        if self._hold is None:
            self._hold = self._clock.callLater(self._hold_left(), self._hold_is_over, start)

    def _hold_left(self) -> float:
        return LONGEST_HOLD_SECONDS - (self._clock.seconds() - self._began)

    def _hold_is_over(self, start: Callable[[], None]) -> None:
        self._hold = None
        self._began = -math.inf  # the hold is over, however the times were rounded
        start()

    def _end_hold(self) -> None:
        timer, self._hold = self._hold, None
        if timer is not None:
            timer.cancel()

    def begun(self) -> None:
        """Record that a group's sync was begun."""
        self._under_way = True
        self._began = self._clock.seconds()

    def ended(self, partitions: int, seconds: float) -> None:
        """Record the duration of a group's sync."""
        self._under_way = False
        self._end_hold()
        self._ended = self._clock.seconds()
        if self._closed:
            self.file_system.close()
        each = seconds / partitions
        if self._one_by_one and self._is_slower(each):
            self._not_before = self._ended + min(seconds * PAUSE_FACTOR, LONGEST_PAUSE_SECONDS)
            self._slow = each

    def one_took(self, began: float) -> None:
        """Record the end of one partition's sync, which was begun at that time.

        Its duration tells nothing if a group was under way meanwhile: most of its work may have been done by the group.
        """
        if self._under_way or self._ended > began:
            return
        seconds = self._clock.seconds() - began
        self._one_by_one += (seconds - self._one_by_one) * (_NEWEST if self._one_by_one else 1.0)
        if not self._is_slower(self._slow):
            self._not_before = self._ended
            self._slow = math.inf

    def _is_slower(self, each: float) -> bool:
        """Return whether a group that takes ``each`` seconds for a partition is too slow beside syncs one by one."""
        return each > SLOWER_FACTOR * self._one_by_one / self._workers

    def close(self) -> None:
        """Close the file system, once no sync is under way: its descriptor's number could be given to another file."""
        self._closed = True
        self._end_hold()
        if not self._under_way:
            self.file_system.close()


def open_groups(files: IFileOperations, path: str, clock: Clock, workers: int) -> GroupSyncs | None:
    """Open the file system of a data directory for syncs of many partitions; None if a sync of it proves nothing.

    Call it before anything is appended: a failed write is reported only to descriptors that were open at the time.
    Raises OSError.
    """
    file_system = files.file_system(path)
    return None if file_system is None else GroupSyncs(file_system, clock, workers)
