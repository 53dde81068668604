"""Keep the log that a partition has to hold beside it, during a random life."""

from __future__ import annotations

from attrs import define, field

from logd.log.disk.names import META, META_COPY, join
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


def check(holds: bool, text: str, *values: object) -> None:
    """Raise Broken unless ``holds`` is true."""
    if not holds:
        raise Broken(text + " " + " ".join(map(repr, values)))


def check_format(files: MemoryFiles, folder: str, batches: bool) -> None:
    """Check that an older release would refuse a directory with ``batches``, whatever is lost now."""
    for name in (META, META_COPY) if batches else ():
        content = files.durable(join(folder, name))
        check(content is not None and Meta.decode(content).format == BATCH_FORMAT, "the format may be lost", name)
