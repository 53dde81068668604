"""One file that is followed: which it is, how far it was read, how far that is acknowledged."""

from __future__ import annotations

from collections import deque

from attrs import define, field

from logd.collect.files import Identity, OpenFile, Seen
from logd.collect.mark import START, ReadMark, beginning


@define(eq=False)
class Piece:
    """Some lines of a source; ``mark`` is the place behind them, ``bytes`` what they took in the file."""

    source: SourceFile
    lines: list[bytes]
    mark: ReadMark
    bytes: int
    acknowledged: bool = False


@define(eq=False)
class SourceFile:
    """A file under whatever name. The thread that reads owns all but the two fields at the end.

    A file that was copied and emptied (copytruncate) leaves its source to the copy: what was read of one was read of
    the other.
    """

    #: Where it was first seen: what its lines are called after, through rotations.
    name: str
    identity: Identity
    #: Where it is now (or was last).
    path: str
    #: The place up to which it was read.
    mark: ReadMark = START
    #: Its beginning when it was found, at position 0: what it is known by until some of it is read.
    birth: ReadMark = START
    #: What was last seen of it, in bytes and ns; -1: nothing yet.
    size: int = -1
    modified: int = -1
    #: The size that it had when its content was last known to be what was read.
    sound_size: int = 0
    #: Seconds (clock's) when it was last seen to have changed.
    changed_at: float = 0.0
    #: Whether the content was compared with the mark since the mark came from a state file.
    verified: bool = True
    #: Whether its content turned out not to be what was read: emptied or overwritten.
    broken: bool = False
    #: How many looks in a row did not find it.
    missed: int = 0
    #: Copies of it beside it: they hold nothing that is not in it, as long as it is whole.
    copies: dict[Identity, Seen] = field(factory=dict)
    file: OpenFile | None = None
    #: The size at which no complete line was left, -1 when that is not so.
    stuck_at: int = -1
    #: Whether its unfinished last line is to be taken as it is.
    flush: bool = False
    #: Whether the rest of an over-long line is being left out, and how much of it was.
    skipping: bool = False
    skipped: int = 0
    #: Why it could not be read at the last attempt.
    trouble: str = ""

    #: Owner: the ledger. The place up to which everything is acknowledged.
    acknowledged: ReadMark = START
    #: Owner: the ledger. Pieces on their way, in order.
    pending: deque[Piece] = field(factory=deque)

    @property
    def known(self) -> ReadMark:
        """The mark that its file has to fit."""
        return self.mark if self.mark.position else self.birth

    @property
    def kept(self) -> ReadMark:
        """The mark to go on from in another run: of the place that is acknowledged."""
        if self.acknowledged.position or not self.mark.position:
            return self.acknowledged if self.acknowledged.position else self.birth
        return beginning(self.mark)

    @property
    def unread(self) -> int:
        """Bytes that are there and were not read."""
        return max(0, self.size - self.mark.position)

    @property
    def ready(self) -> bool:
        """Whether reading may bring something."""
        return (
            self.size > self.mark.position
            and (self.stuck_at != self.size or self.flush)
            and not self.broken
            and not self.trouble
        )
