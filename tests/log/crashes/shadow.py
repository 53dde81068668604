"""Keep the log that a partition has to hold beside it, during a random life."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from attrs import define, field

from logd.log.disk.names import META, META_COPY, join, segment_name
from logd.log.partition import PartitionLog
from logd.log.store.meta import BATCH_FORMAT, Meta
from logd.testing.memory.files import MemoryFiles


class Broken(AssertionError):
    """An invariant that does not hold."""


@define(eq=False)
class Shadow:
    """The bytes that a partition has to hold: every byte ever appended, cut where a crash cut the log."""

    content: bytearray = field(factory=bytearray)
    entries: list[int] = field(factory=list)
    start: int = 0
    visible: int = 0
    #: The latest start that a deletion of records has asked for, and the one of which it was told.
    asked: int = 0
    promised: int = 0
    #: The end of the bytes that were found on the disk.
    durable: int = 0
    #: An append failed: a part of it may come back behind the visible end when its removal was not synced.
    may_differ: bool = False
    #: The position of a refused append, also past the next start. Its bytes may come back until a later append there
    #: is flushed.
    refused_at: int = -1

    def cut(self, end: int) -> None:
        """Forget what is at and behind ``end``."""
        del self.content[end:]
        self.entries = [at for at in self.entries if at < end]

    def deletion(self, position: int, start: int, end: int) -> Callable[[BaseException | None], None]:
        """Ask for a deletion of records before a position in a log; return the function that takes its answer."""
        boundaries = [*self.entries, end]
        begin = max(start, boundaries[bisect_right(boundaries, position) - 1])
        self.asked = max(self.asked, begin)

        def done(error: BaseException | None) -> None:
            if error is None:
                self.promised = max(self.promised, begin)

        return done

    def found(self, start: int) -> None:
        """Begin another life, in which the log begins at ``start``."""
        self.start, self.may_differ, self.asked, self.promised = start, False, 0, min(self.promised, start)


def check(holds: bool, text: str, *values: object) -> None:
    """Raise Broken unless ``holds`` is true."""
    if not holds:
        raise Broken(text + " " + " ".join(map(repr, values)))


def check_format(files: MemoryFiles, folder: str, batches: bool) -> None:
    """Check that an older release would refuse a directory with ``batches``, whatever is lost now."""
    for name in (META, META_COPY) if batches else ():
        content = files.durable(join(folder, name))
        check(content is not None and Meta.decode(content).format == BATCH_FORMAT, "the format may be lost", name)


def check_durable(files: MemoryFiles, log: PartitionLog, low: int, high: int, shadow: Shadow) -> None:
    """Check that the disk has the bytes of a log from ``low`` up to ``high`` for certain."""
    for start, count, _ in log.segments():
        first, last = max(low, start), min(high, start + count)
        if first >= last:
            continue
        disk = files.durable(join(log.folder, segment_name(start)))
        check(disk is not None, "the name of a segment with visible bytes may be lost", log.folder, start)
        assert disk is not None
        same = disk[first - start : last - start] == shadow.content[first:last]
        check(same, "visible bytes may be lost", log.folder, first, last)
