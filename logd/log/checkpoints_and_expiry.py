"""Background work on the disk, which only a stop waits for: checkpoints, and the files of expired segments."""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence

from attrs import define, field

from logd.errors import PartitionOffline
from logd.interfaces import Clock, IFileOperations, IThreads, Timer
from logd.log.disk.errors import NO_ROOM
from logd.log.disk.names import MARK, index_name, join, segment_name
from logd.log.partition import PartitionLog
from logd.log.recovery.checkpoint import Checkpoint, empty_checkpoint, read_checkpoint, write_checkpoint
from logd.log.recovery.flush_mark import read_mark, write_mark


def do_upkeep(files: IFileOperations, folder: str, checkpoint: Checkpoint, expired: Iterable[int]) -> None:
    """Write the checkpoint, then remove the expired segments. Blocks; raises OSError.

    The order matters: a crash may undo any of the removals, and a hole that the checkpoint does not explain counts as a
    loss, so the next start would not serve the partition. Only if the checkpoint does not fit on a full disk is space
    freed first: the content of the old checkpoint, which names the log's first segment, and then the oldest segments,
    one by one, so that no crash leaves a hole.
    """
    waiting = list(expired)
    has_checkpoint = True
    while True:
        try:
            write_checkpoint(files, folder, checkpoint)
            break
        except OSError as error:
            if error.errno not in NO_ROOM or not waiting:
                raise
            if has_checkpoint:
                _leave_to_mark(files, folder, checkpoint.flushed)
                has_checkpoint = False
            # The earlier removals must be durable first: if one were undone, this removal would leave a hole.
            files.sync_directory(folder)
            _remove(files, folder, waiting.pop(0))
    for start in waiting:
        _remove(files, folder, start)


def _leave_to_mark(files: IFileOperations, folder: str, flushed: int) -> None:
    """Empty the checkpoint, and durably leave it to the mark to record the flushed end. Raises OSError.

    This takes no space if the mark is there, since it is overwritten in place. The empty checkpoint stays: in a log
    without any checkpoint, everything missing before its first segment counts as lost.
    """
    if read_mark(files, folder) < flushed:
        write_mark(files, folder, flushed)
    path = join(folder, MARK)
    # A mark may find no room either: one that is new, or any where each write takes new blocks, as on btrfs. Then the
    # one that is there has to vouch for as much as the checkpoint that goes.
    if read_mark(files, folder) < _flushed_by_checkpoint(files, folder):
        raise OSError(errno.ENOSPC, "the flush mark cannot be written", path)
    file = files.open(path)
    try:
        file.sync_data()
    finally:
        file.close()
    files.sync_directory(folder)  # its name may be new
    empty_checkpoint(files, folder)


def _flushed_by_checkpoint(files: IFileOperations, folder: str) -> int:
    """Return the flushed end in the checkpoint, 0 if there is none. Raises OSError."""
    try:
        found = read_checkpoint(files, folder)
    except ValueError:
        return 0
    return 0 if found is None else found.flushed


def _remove(files: IFileOperations, folder: str, start: int) -> None:
    for name in (segment_name(start), index_name(start)):
        if files.exists(join(folder, name)):
            files.remove(join(folder, name))


#: Is given the error, or None.
Done = Callable[[BaseException | None], None]

#: Partitions checked for expired segments in one reactor turn, about a microsecond each.
LOOKED_AT_ONCE = 1000


@define(eq=False)
class Upkeep:
    """A queue of partitions for upkeep on threads. Owner thread only.

    Upkeep does one partition at a time, so that flushes have the disk, but ``workers`` at a time while a ``when_idle``
    callback waits. Only partitions that have changed are queued; the others cost nothing.
    """

    _files: IFileOperations
    _threads: IThreads
    _clock: Clock
    _report: Callable[..., None]
    _workers: int = 1
    #: Partitions whose checkpoint may be out of date.
    _changed: dict[PartitionLog, None] = field(factory=dict)
    _queue: OrderedDict[PartitionLog, None] = field(factory=OrderedDict)
    _busy: dict[PartitionLog, None] = field(factory=dict)
    _idle_callbacks: list[Callable[[], None]] = field(factory=list)
    #: Callbacks that wait for a checkpoint with this start or a later one.
    _waiting: dict[PartitionLog, list[tuple[int, Done]]] = field(factory=dict)
    #: Callbacks, each with the partitions on which no upkeep may be under way before its call.
    _forgetting: list[tuple[Collection[PartitionLog], Callable[[], None]]] = field(factory=list)
    #: The next turn of ``expire``.
    _looking: Timer | None = None

    def changed(self, log: PartitionLog) -> None:
        """Record that the checkpoint of ``log`` may be out of date, for the next ``look_after_changed``."""
        self._changed[log] = None

    def look_after_changed(self) -> None:
        """Queue the partitions that have changed since the last call, and those whose upkeep failed."""
        changed, self._changed = self._changed, {}
        self.look_after(changed)

    def expire(self, logs: Sequence[PartitionLog]) -> None:
        """Expire segments of ``logs``, some logs in this reactor turn and the rest in the next ones."""
        if self._looking is not None:
            self._looking.cancel()
        self._expire(logs)

    def _expire(self, logs: Sequence[PartitionLog]) -> None:
        self._looking = None
        self.look_after([log for log in logs[:LOOKED_AT_ONCE] if log.expire()])
        if len(logs) > LOOKED_AT_ONCE:
            self._looking = self._clock.callLater(0, self._expire, logs[LOOKED_AT_ONCE:])

    def close(self, logs: Iterable[PartitionLog]) -> None:
        """Write the checkpoints that are out of date, and close the logs. Blocks."""
        if self._looking is not None:
            self._looking.cancel()
        for log in logs:
            log.finish()
            work = log.begin_upkeep()
            if work is not None:
                try:
                    do_upkeep(self._files, log.folder, *work)
                except OSError as error:
                    self._report("cannot write the checkpoint of {folder}: {error}", folder=log.folder, error=error)
            log.close()

    def look_after(self, logs: Iterable[PartitionLog]) -> None:
        """Queue ``logs``: their checkpoints are written if they have changed, and their expired files removed."""
        for log in logs:
            self._queue[log] = None
        self._next()

    def make_start_durable(self, log: PartitionLog, done: Done) -> None:
        """Call ``done(None)`` once the log's present first position stands in its checkpoint, or ``done(error)``."""
        self._waiting.setdefault(log, []).append((log.first, done))
        self.look_after([log])

    def forget(self, logs: Collection[PartitionLog], done: Callable[[], None]) -> None:
        """Begin no more upkeep of ``logs``; call ``done`` once none is under way, perhaps at once."""
        for log in logs:
            self._queue.pop(log, None)
            self._changed.pop(log, None)
            if log not in self._busy:
                self._answer(log, None)
        self._forgetting.append((logs, done))
        self._tell_forgotten()

    def when_idle(self, done: Callable[[], None]) -> None:
        """Call ``done`` once nothing is left to do, perhaps at once."""
        self._idle_callbacks.append(done)
        self._next()

    def _next(self) -> None:
        while len(self._busy) < (self._workers if self._idle_callbacks else 1):
            log = next((each for each in self._queue if each not in self._busy), None)
            if log is None:
                break
            del self._queue[log]
            work = log.begin_upkeep()
            if work is not None:
                self._run(log, *work)
            else:
                self._answer(log, None)
        if not self._busy and not self._queue:
            callbacks, self._idle_callbacks = self._idle_callbacks, []
            for callback in callbacks:
                callback()

    def _run(self, log: PartitionLog, checkpoint: Checkpoint, expired: list[int]) -> None:
        self._busy[log] = None

        def done(_: None, error: BaseException | None) -> None:
            del self._busy[log]
            if error is None:
                log.end_upkeep(checkpoint, expired)
            else:
                # The next pass tries again. Until then only a start after a crash is slower.
                self._report("upkeep of {folder} failed: {error}", folder=log.folder, error=error)
                self.changed(log)
            self._answer(log, error)
            self._tell_forgotten()
            self._next()

        self._threads.run(lambda: do_upkeep(self._files, log.folder, checkpoint, expired), done)

    def _answer(self, log: PartitionLog, error: BaseException | None) -> None:
        """Answer those who wait for the log's start, as far as that can be known now."""
        durable = -1 if log.offline is not None else 0 if log.checkpoint is None else log.checkpoint.first
        for start, done in self._waiting.pop(log, []):
            if start <= durable:
                done(None)
            elif log in self._queue or log in self._busy:  # an upkeep that begins later than this one
                self._waiting.setdefault(log, []).append((start, done))
            else:
                done(error or PartitionOffline(f"{log.topic}-{log.partition} is not served any more"))

    def _tell_forgotten(self) -> None:
        waiting, self._forgetting = self._forgetting, []
        for logs, done in waiting:
            if self._busy and not self._busy.keys().isdisjoint(logs):
                self._forgetting.append((logs, done))
            else:
                done()
