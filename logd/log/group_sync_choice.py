"""The choice whether waiting partitions share one sync of their file system, by the measured cost of both ways."""

from __future__ import annotations

from attrs import define, field

from logd.interfaces import Clock, IFileOperations, IFileSystem

#: Fewer waiting partitions are synced one by one: that costs about as much, and each is answered sooner.
LEAST_GROUP = 8
#: Partitions beyond this number wait for the next group, so that answering them does not hold up the owner thread: each
#: takes some 50 microseconds of its time.
MOST_GROUP = 500
#: A sync of the file system also writes the data of other programs. Above this many bytes, beside those of the broker
#: itself, partitions are synced one by one: at 100 MB/s the others' data would take a third of a second.
OTHERS_BYTES = 32 << 20
#: After a group that was slower than its partitions one by one, none begins for this many times its duration, so that
#: at most a twentieth of the time is spent on trying again.
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
    #: Seconds of one partition's sync, a moving average; 0 before the first.
    _one_by_one: float = field(default=0.0, init=False)
    _not_before: float = field(default=0.0, init=False)
    _under_way: bool = field(default=False, init=False)
    _closed: bool = field(default=False, init=False)

    def allows(self, waiting: int, own_bytes: int) -> bool:
        """Return whether ``waiting`` partitions may share a sync now; ``own_bytes`` are unflushed in the broker."""
        if waiting < self.least or self._under_way or self._clock.seconds() < self._not_before:
            return False
        if self.file_system.dirty_bytes() > own_bytes + OTHERS_BYTES:
            self._not_before = self._clock.seconds() + BUSY_PAUSE_SECONDS
            return False
        return True

    def begun(self) -> None:
        """Record that a group's sync was begun."""
        self._under_way = True

    def ended(self, partitions: int, seconds: float) -> None:
        """Record the duration of a group's sync."""
        self._under_way = False
        if self._closed:
            self.file_system.close()
        if self._one_by_one and seconds > self._one_by_one * partitions / self._workers:
            pause = min(seconds * PAUSE_FACTOR, LONGEST_PAUSE_SECONDS)
            self._not_before = self._clock.seconds() + pause

    def one_took(self, seconds: float) -> None:
        """Record the duration of one partition's sync."""
        self._one_by_one += (seconds - self._one_by_one) * (_NEWEST if self._one_by_one else 1.0)

    def close(self) -> None:
        """Close the file system, once no sync is under way: its descriptor's number could be given to another file."""
        self._closed = True
        if not self._under_way:
            self.file_system.close()


def open_groups(files: IFileOperations, path: str, clock: Clock, workers: int) -> GroupSyncs | None:
    """Open the file system of a data directory for syncs of many partitions; None if a sync of it proves nothing.

    Call it before anything is appended: a failed write is reported only to descriptors that were open at the time.
    Raises OSError.
    """
    file_system = files.file_system(path)
    return None if file_system is None else GroupSyncs(file_system, clock, workers)
