"""Work on the disk that nobody waits for: checkpoints, and the files of expired segments. One partition at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable

from attrs import define, field

from logd.interfaces import IFileOperations, IThreads
from logd.log.checkpoint import Checkpoint, write_checkpoint
from logd.log.mark import read_mark, write_mark
from logd.log.names import CHECKPOINT, MARK, index_name, join, segment_name
from logd.log.partition import PartitionLog
from logd.log.room import NO_ROOM


def do_upkeep(files: IFileOperations, folder: str, checkpoint: Checkpoint, expired: Iterable[int]) -> None:
    """Write the checkpoint, then remove segments. Blocks; raises OSError.

    In this order: a crash may undo any of the removals, and a hole that the checkpoint does not explain is a loss, for
    which the next start would not serve the partition. Only where a full disk does not take the checkpoint something
    has to go first: the old checkpoint, which says that the log begins with the oldest segment, and then the oldest
    segments, one by one, so that no crash leaves a hole.
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
    """Remove the checkpoint; from here on the mark alone vouches for what is flushed, lastingly. Raises OSError.

    It takes no room: the mark is written over in place.
    """
    if read_mark(files, folder) < flushed:
        write_mark(files, folder, flushed)
    file = files.open(join(folder, MARK))
    try:
        file.sync_data()
    finally:
        file.close()
    if files.exists(join(folder, CHECKPOINT)):
        files.remove(join(folder, CHECKPOINT))


def _remove(files: IFileOperations, folder: str, start: int) -> None:
    for name in (segment_name(start), index_name(start)):
        if files.exists(join(folder, name)):
            files.remove(join(folder, name))


@define(eq=False)
class Upkeep:
    """A queue of partitions to look after, worked off one by one on a thread. Owner thread only."""

    _files: IFileOperations
    _threads: IThreads
    _report: Callable[..., None]
    _queue: OrderedDict[PartitionLog, None] = field(factory=OrderedDict)
    _busy: PartitionLog | None = None
    _idle_callbacks: list[Callable[[], None]] = field(factory=list)
    _turn_callbacks: list[Callable[[], None]] = field(factory=list)

    def look_after(self, logs: Iterable[PartitionLog]) -> None:
        """Write the checkpoints of ``logs`` that have changed, and remove their expired files, soon."""
        for log in logs:
            self._queue[log] = None
        self._next()

    def forget(self, logs: Collection[PartitionLog], done: Callable[[], None]) -> None:
        """Begin nothing more on ``logs``; call ``done`` when nothing is under way on them, perhaps at once."""
        for log in logs:
            self._queue.pop(log, None)
        if self._busy in logs:
            self._turn_callbacks.append(done)
        else:
            done()

    def when_idle(self, done: Callable[[], None]) -> None:
        """Call ``done`` once when nothing is left to do; at once when that is so now."""
        self._idle_callbacks.append(done)
        self._next()

    def _next(self) -> None:
        while self._busy is None and self._queue:
            log, _ = self._queue.popitem(last=False)
            work = log.begin_upkeep()
            if work is not None:
                self._run(log, *work)
        if self._busy is None:
            callbacks, self._idle_callbacks = self._idle_callbacks, []
            for callback in callbacks:
                callback()

    def _run(self, log: PartitionLog, checkpoint: Checkpoint, expired: list[int]) -> None:
        self._busy = log

        def done(_: None, error: BaseException | None) -> None:
            self._busy = None
            if error is None:
                log.end_upkeep(checkpoint, expired)
            else:
                # The next pass tries again: only a start after a crash is slower until then.
                self._report("upkeep of {folder} failed: {error}", folder=log.folder, error=error)
            callbacks, self._turn_callbacks = self._turn_callbacks, []
            for callback in callbacks:
                callback()
            self._next()

        self._threads.run(lambda: do_upkeep(self._files, log.folder, checkpoint, expired), done)
