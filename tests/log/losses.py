"""Take flushed bytes from a partition between two lives of a store, and repair it."""

from __future__ import annotations

from random import Random

from attrs import define

from logd.log.damage.folder_repair import repair_folder
from logd.log.disk.names import join, segment_name, segment_start
from logd.log.partition import PartitionLog
from logd.log.recovery.checkpoint import Checkpoint, EmptyCheckpoint, read_checkpoint
from logd.log.recovery.flush_mark import read_mark
from logd.log.store.log_store import LogStore
from logd.protocol.entry import gap_length
from logd.testing.memory.disk import Directory, Inode
from logd.testing.memory.files import MemoryFiles
from tests.log.crashes.shadow import Shadow, check
from tests.log.threads import Threads


@define
class Loss:
    """One segment file that is missing, short or a folder, with all that is needed to put it back."""

    folder: str
    name: str
    content: bytes
    #: The segment's start, and the lost range.
    start: int
    lost_from: int
    lost_to: int
    #: True if no repair helps, only the file itself.
    unreadable: bool

    def put_back(self, files: MemoryFiles) -> None:
        """Put the file back, as an operator with a copy would."""
        names = files._directory(self.folder)
        inode = Inode(modified=files.now())
        inode.data[:] = self.content
        inode.sync()
        names.names[self.name] = names.disk[self.name] = inode


def lose(files: MemoryFiles, random: Random, folder: str, visible: int) -> Loss | None:
    """Take a segment's file, or its end, for good; return None where nothing would tell of the loss.

    Nothing is taken unless the folder vouches for all of ``visible``, which it does not once a loss of power
    took the mark.
    """
    flushed = _vouched_for(files, folder)
    if flushed is None or flushed.flushed < visible:
        return None
    starts = [start for name in files.list(folder) if (start := segment_start(name)) is not None]
    starts = [start for start in starts if flushed.start <= start < flushed.flushed]
    if not starts:
        return None
    start = random.choice(starts)
    name = segment_name(start)
    inode = files._inode(join(folder, name))
    end = min([start + len(inode.data), flushed.flushed, *(each for each in starts if each > start)])
    if end <= start:
        return None
    loss = Loss(folder, name, bytes(inode.data), start, start, end, False)
    names = files._directory(folder)
    kind = random.choice(["missing", "short", "folder"])
    if kind == "short":
        loss.lost_from = random.randrange(start, end)
        del inode.data[loss.lost_from - start :]
        inode.sync()
    elif kind == "missing":
        names.names.pop(name, None)
        names.disk.pop(name, None)
    else:
        loss.unreadable = True
        names.names[name] = names.disk[name] = Directory()
    return loss


def _vouched_for(files: MemoryFiles, folder: str) -> Checkpoint | None:
    """Return the start and the flushed end that the folder tells of a log; None where it tells neither."""
    try:
        checkpoint = read_checkpoint(files, folder) if files.exists(folder) else None
    except EmptyCheckpoint:
        return None  # the first segment is not known
    mark = read_mark(files, folder)
    if checkpoint is None:
        return Checkpoint(0, mark) if mark else None
    return Checkpoint(checkpoint.start, max(checkpoint.flushed, mark))


def everything(files: MemoryFiles, folder: str) -> dict[str, bytes | None]:
    """Return all files of a folder, with their bytes."""
    nodes = files._directory(folder).names
    return {name: bytes(node.data) if isinstance(node, Inode) else None for name, node in nodes.items()}


def repair(store: LogStore, threads: Threads, log: PartitionLog) -> BaseException | None:
    """Repair a partition in a store, and have it served again as a broker does; return the error, or None."""
    outcome: list[BaseException | None] = []
    store.reopen(log, lambda: repair_folder(store.files, log.folder, False, False).is_sound, outcome.append)
    threads.settle()
    return outcome[0]


def adopt_gaps(shadow: Shadow, log_start: int, content: bytes, loss: Loss) -> None:
    """Take over into a shadow the gaps that stand in place of lost bytes, and check that nothing else has changed."""
    at = max(each for each in [*shadow.entries, log_start] if each <= loss.lost_from)
    while at < min(loss.lost_to, log_start + len(content)):
        here = at - log_start
        size = 4 + int.from_bytes(content[here : here + 4], "big")
        if content[here : here + size] != shadow.content[at : at + size]:
            check(gap_length(content, here) == size, "no gap is in the place of what is lost", at, loss)
            shadow.content[at : at + size] = content[here : here + size]
            shadow.entries = [each for each in shadow.entries if not at < each < at + size]
        at += size
