"""The pieces of an answer to a Fetch besides bytes: ranges that are read, and changed, when the socket takes them.

An answer waits for its peer, perhaps for minutes, so what it holds meanwhile counts. Batches of the log hold nothing:
they are read when they are sent. Batches that had to be made are counted over all connections.
"""

from __future__ import annotations

import errno

from attrs import define, field
from twisted.internet.defer import Deferred
from zope.interface import implementer

from logd.interfaces import IFileRange
from logd.log.disk.open_files import FileRange
from logd.protocol import loops

#: Bytes made for all clients together that may wait for their peers.
MADE_BYTES = 64 << 20
#: The share of what is left of them that one answer may take, and what it may take in any case.
SHARE = 8
LEAST_BYTES = 16 << 10


@define(eq=False)
class MadeMemory:
    """Counts the bytes that were made for clients and wait for them: the more, the less an answer may have."""

    limit: int = MADE_BYTES
    held: int = 0

    def reserve(self) -> int:
        """Return the bytes that one answer may have now; they count as held until ``release``."""
        room = max((self.limit - self.held) // SHARE, LEAST_BYTES)
        self.held += room
        return room

    def release(self, reserved: int) -> None:
        """End a reservation: the answer is made, and its bytes count themselves."""
        self.held -= reserved


@implementer(IFileRange)
@define(eq=False)
class MadeBytes:
    """Bytes that were made, as a range that is sent piece by piece."""

    _data: bytes
    _memory: MadeMemory
    file_position: int = field(default=0, init=False)
    count: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.count = len(self._data)
        self._memory.held += self.count

    @property
    def file(self) -> MadeBytes:
        """See IFileRange: these are the methods of an IFile that a transfer uses."""
        return self

    path = "the batches made for a client"

    def read_at(self, position: int, count: int) -> bytes:
        """See IFile."""
        return self._data[position : position + count]

    read_cached = read_at

    def fileno(self) -> int:
        """See IFile: no sendfile."""
        return -1

    def unreadable(self, file_position: int, error: OSError) -> None:
        """See IFileRange; never called."""

    def close(self) -> None:
        """See IFileRange."""
        self._memory.held -= self.count
        self._data = b""


@implementer(IFileRange)
@define(eq=False)
class AnswerEnd:
    """No bytes, behind all others of an answer: it is closed once they have left, or will not be sent."""

    file_position: int = field(default=0, init=False)
    count: int = field(default=0, init=False)
    closed: bool = field(default=False, init=False)
    _waiting: Deferred[None] | None = field(default=None, init=False)

    @property
    def file(self) -> AnswerEnd:
        """See IFileRange."""
        return self

    path = "the end of an answer"

    def read_at(self, position: int, count: int) -> bytes:
        """See IFile."""
        return b""

    read_cached = read_at

    def fileno(self) -> int:
        """See IFile: no sendfile."""
        return -1

    def unreadable(self, file_position: int, error: OSError) -> None:
        """See IFileRange; never called."""

    def wait(self) -> Deferred[None]:
        """Return what fires when the end is reached; one at a time."""
        self._waiting = Deferred()
        return self._waiting

    def close(self) -> None:
        """See IFileRange."""
        self.closed = True
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)


@implementer(IFileRange)
@define(eq=False)
class StoredRunRange:
    """A run of batches of the log, see logd.protocol.loops.batch_runs, which is read and patched when it is sent.

    It is read as a whole, so it should be no larger than one piece of a transfer.
    """

    _range: FileRange
    #: Bytes on the wire.
    count: int
    file_position: int = field(default=0, init=False)

    @property
    def file(self) -> StoredRunRange:
        """See IFileRange: these are the methods of an IFile that a transfer uses."""
        return self

    @property
    def path(self) -> str:
        """See IFile."""
        path: str = self._range.file.path
        return path

    def read_cached(self, position: int, count: int) -> bytes | None:
        """See IFile."""
        data = self._range.file.read_cached(self._range.file_position, self._range.count)
        return None if data is None else self._wire(data)[position : position + count]

    def read_at(self, position: int, count: int) -> bytes:
        """See IFile."""
        data = self._range.file.read_at(self._range.file_position, self._range.count)
        return self._wire(data)[position : position + count]

    def fileno(self) -> int:
        """See IFile: no sendfile."""
        return -1

    def _wire(self, data: bytes) -> bytes:
        """Raise OSError if the log has other batches than when the answer was begun: it announced their size."""
        try:
            wire = loops.wire_of_run(data, self._range.position)
        except ValueError as error:
            raise OSError(errno.EIO, f"the log was changed while it was sent: {error}") from None
        if len(wire) != self.count:
            raise OSError(errno.EIO, f"the log was changed while it was sent: {len(wire)} bytes, not {self.count}")
        return wire

    def unreadable(self, file_position: int, error: OSError) -> None:
        """See IFileRange."""
        self._range.unreadable(self._range.file_position, error)

    def close(self) -> None:
        """See IFileRange."""
        self._range.close()
