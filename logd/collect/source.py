"""A followed file: its identity, the mark up to which it was read, and the acknowledged mark."""

from __future__ import annotations

from collections import deque

from attrs import define, field

from logd.collect.files import Identity, OpenFile, Seen
from logd.collect.read_mark import START, ReadMark, beginning, with_head


@define(eq=False)
class Piece:
    """Lines of a source; ``mark`` is the mark after them, ``bytes`` their size in the file."""

    source: SourceFile
    lines: list[bytes]
    mark: ReadMark
    bytes: int
    acknowledged: bool = False


@define(eq=False)
class SourceFile:
    """A followed file under any name. The reading thread owns all fields except the last two.

    When a file is copied and truncated (copytruncate), its source moves to the copy, which has the same content.
    """

    #: The path where the file was first seen; its lines keep this name through rotations.
    name: str
    identity: Identity
    #: The current or last known path.
    path: str
    #: The mark up to which the file was read.
    mark: ReadMark = START
    #: A mark of position 0 with as much of the head as was seen; identifies the file while less than that is read.
    birth: ReadMark = START
    #: Size (bytes) and modification time (ns) when last seen; -1: not seen yet.
    size: int = -1
    modified: int = -1
    #: The size when the content was last verified against the mark.
    sound_size: int = 0
    #: The clock's time in seconds when the file was last seen to have changed.
    changed_at: float = 0.0
    #: False until the content has been compared with a mark from the state file.
    verified: bool = True
    #: True when the content no longer fits the mark: the file was truncated or overwritten.
    broken: bool = False
    #: The number of successive looks that did not find the file.
    missed: int = 0
    #: Copies beside the file; they hold nothing else, as long as the file is whole.
    copies: dict[Identity, Seen] = field(factory=dict)
    file: OpenFile | None = None
    #: The size at which no complete line was left, or -1.
    stuck_at: int = -1
    #: True when the unfinished last line is to be sent as it is.
    flush: bool = False
    #: The bytes of an over-long line skipped so far, while the rest of it is still to be skipped; else 0.
    skipped: int = 0
    #: The reason why the last attempt to read failed.
    trouble: str = ""
    #: With ``from_end``, the size in the first look, until that much has been skipped; else 0.
    skip_to: int = 0

    #: Owner: the ledger. The mark up to which everything is acknowledged.
    acknowledged: ReadMark = START
    #: Owner: the ledger. Pieces in flight, in order.
    pending: deque[Piece] = field(factory=deque)

    @property
    def known(self) -> ReadMark:
        """The mark that the file has to fit."""
        return with_head(self.mark, self.birth)

    @property
    def kept(self) -> ReadMark:
        """The acknowledged mark, from which the next run continues."""
        return with_head(self.acknowledged if self.acknowledged.position else beginning(self.mark), self.birth)

    @property
    def skipping(self) -> bool:
        """True while the rest of an over-long line is being skipped."""
        return self.skipped > 0

    @property
    def unread(self) -> int:
        """The bytes in the file that are not read yet."""
        return max(0, self.size - self.mark.position)

    @property
    def in_flight(self) -> bool:
        """True when all was read, and not all is acknowledged: the state has to keep the file, even if it is gone."""
        return bool(self.pending) and not self.unread

    @property
    def ready(self) -> bool:
        """True when reading may return lines."""
        return (
            self.size > self.mark.position
            and (self.stuck_at != self.size or self.flush)
            and not self.broken
            and not self.trouble
        )
