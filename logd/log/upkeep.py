"""Work on the disk that nobody waits for but a stop: checkpoints, and the files of expired segments."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence

from attrs import define, field

from logd.interfaces import Clock, IFileOperations, IThreads, Timer
from logd.log.disk.errors import NO_ROOM
from logd.log.disk.names import MARK, index_name, join, segment_name
from logd.log.partition import PartitionLog
from logd.log.recovery.checkpoint import Checkpoint, empty_checkpoint, write_checkpoint
from logd.log.recovery.flush_mark import read_mark, write_mark


def do_upkeep(files: IFileOperations, folder: str, checkpoint: Checkpoint, expired: Iterable[int]) -> None:
    """Write the checkpoint, then remove segments. Blocks; raises OSError.

    In this order: a crash may undo any of the removals, and a hole that the checkpoint does not explain is a loss, for
    which the next start would not serve the partition. Only where a full disk does not take the checkpoint something
    has to go first: the content of the old checkpoint, which says with which segment the log begins, and then the
    oldest segments, one by one, so that no crash leaves a hole.
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
            # Those removed before have to stay removed: with one of them back, this one would leave a hole.
            files.sync_directory(folder)
            _remove(files, folder, waiting.pop(0))
    for start in waiting:
        _remove(files, folder, start)


def _leave_to_mark(files: IFileOperations, folder: str, flushed: int) -> None:
    """Empty the checkpoint; from here on the mark alone vouches for what is flushed, lastingly. Raises OSError.

    It takes no room: the mark is written over in place. The empty checkpoint stays, since a log without any has lost
    what is missing before its first segment.
    """
    if read_mark(files, folder) < flushed:
        write_mark(files, folder, flushed)
    file = files.open(join(folder, MARK))
    try:
        file.sync_data()
    finally:
        file.close()
    empty_checkpoint(files, folder)


def _remove(files: IFileOperations, folder: str, start: int) -> None:
    for name in (segment_name(start), index_name(start)):
        if files.exists(join(folder, name)):
            files.remove(join(folder, name))


#: Partitions whose segments are looked at for old ones in one turn, about a microsecond for each.
LOOKED_AT_ONCE = 1000


@define(eq=False)
class Upkeep:
    """A queue of partitions to look after, worked off on threads. Owner thread only.

    One partition at a time, so that flushes have the disk; as many as there are ``workers`` once somebody waits for the
    end of it. A partition is queued when something of it has changed: the others cost nothing.
    """

    _files: IFileOperations
    _threads: IThreads
    _clock: Clock
    _report: Callable[..., None]
    _workers: int = 1
    #: Partitions whose checkpoint may have to be written.
    _changed: dict[PartitionLog, None] = field(factory=dict)
    _queue: OrderedDict[PartitionLog, None] = field(factory=OrderedDict)
    _busy: dict[PartitionLog, None] = field(factory=dict)
    _idle_callbacks: list[Callable[[], None]] = field(factory=list)
    #: What waits until nothing is under way on some partitions.
    _forgetting: list[tuple[Collection[PartitionLog], Callable[[], None]]] = field(factory=list)
    #: The next turn of ``expire``.
    _looking: Timer | None = None

    def changed(self, log: PartitionLog) -> None:
        """Take note that the checkpoint of ``log`` may have to be written, at the next ``look_after_changed``."""
        self._changed[log] = None

    def look_after_changed(self) -> None:
        """Look after what has changed since the last time, and after what could not be written then."""
        changed, self._changed = self._changed, {}
        self.look_after(changed)

    def expire(self, logs: Sequence[PartitionLog]) -> None:
        """Have ``logs`` let go of old segments, some in this turn and the rest in the next ones."""
        if self._looking is not None:
            self._looking.cancel()
        self._expire(logs)

    def _expire(self, logs: Sequence[PartitionLog]) -> None:
        self._looking = None
        self.look_after([log for log in logs[:LOOKED_AT_ONCE] if log.expire()])
        if len(logs) > LOOKED_AT_ONCE:
            self._looking = self._clock.callLater(0, self._expire, logs[LOOKED_AT_ONCE:])

    def close(self, logs: Iterable[PartitionLog]) -> None:
        """Write the checkpoints that are not written yet, and close the logs. Blocks."""
        if self._looking is not None:
            self._looking.cancel()
        for log in logs:
            log.finish()
            work = log.begin_upkeep()
            if work is not None:
                try:
                    do_upkeep(self._files, log.folder, *work)
                except OSError as error:
                    self._report("no checkpoint for {folder}: {error}", folder=log.folder, error=error)
            log.close()

    def look_after(self, logs: Iterable[PartitionLog]) -> None:
        """Write the checkpoints of ``logs`` that have changed, and remove their expired files, soon."""
        for log in logs:
            self._queue[log] = None
        self._next()

    def forget(self, logs: Collection[PartitionLog], done: Callable[[], None]) -> None:
        """Begin nothing more on ``logs``; call ``done`` when nothing is under way on them, perhaps at once."""
        for log in logs:
            self._queue.pop(log, None)
            self._changed.pop(log, None)
        self._forgetting.append((logs, done))
        self._tell_forgotten()

    def when_idle(self, done: Callable[[], None]) -> None:
        """Call ``done`` once when nothing is left to do; at once when that is so now."""
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
                # The next pass tries again: only a start after a crash is slower until then.
                self._report("upkeep of {folder} failed: {error}", folder=log.folder, error=error)
                self.changed(log)
            self._tell_forgotten()
            self._next()

        self._threads.run(lambda: do_upkeep(self._files, log.folder, checkpoint, expired), done)

    def _tell_forgotten(self) -> None:
        waiting, self._forgetting = self._forgetting, []
        for logs, done in waiting:
            if self._busy and not self._busy.keys().isdisjoint(logs):
                self._forgetting.append((logs, done))
            else:
                done()
