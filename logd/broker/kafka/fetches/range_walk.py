"""The walk over the entries of one range of a log that a Fetch asks for: reads what the conversion needs, in steps.

On the owner's thread only what is in the page cache is read, and some milliseconds of work are done in one turn; what
may take longer is done on another thread, where the
batches that come from the disk are verified (docs/protocol.md: a batch is verified when it leaves a cold page).
"""

from __future__ import annotations

import errno

from attrs import define, field

from logd.interfaces import IFile
from logd.net.transfer import PIECE_BYTES
from logd.protocol import loops
from logd.protocol.batch_layout import BATCH_HEAD_BYTES
from logd.protocol.entry import size_at
from logd.protocol.kafka.fetched_entries import FetchedEntries

#: Bytes that are read at a time; a run of batches in them is sent as one piece.
READ_BYTES = 64 << 10
#: Of a batch behind a large one only the head is read at first.
HEAD_BYTES = BATCH_HEAD_BYTES


class NeedsThread(Exception):
    """The next bytes are not in the page cache, or their conversion may take long."""


@define(eq=False)
class RangeWalk:
    """The walk from ``position`` to ``end``, log positions; ``base`` is that of the file's first byte.

    ``step`` until it returns False. One thread at a time.
    """

    entries: FetchedEntries
    _file: IFile
    _base: int
    position: int
    end: int
    #: The size of the entry at ``position``, if the range is too short for it.
    needed: int = field(default=0, init=False)
    #: Bytes read so far.
    read_bytes: int = field(default=0, init=False)
    _next_read: int = field(default=READ_BYTES, init=False)
    #: True if bytes of the entry at hand came from the disk.
    _was_cold: bool = field(default=False, init=False)

    def step(self, may_wait: bool) -> bool:
        """Take the next bytes; return False at the end, at damage, or when no more fits.

        Raises NeedsThread unless it ``may_wait``, and OSError.
        """
        entries = self.entries
        left = self.end - self.position
        if entries.full or left <= 0:
            return False
        entries.bounds.is_warm, entries.bounds.inline = self._is_warm, not may_wait
        data, cold = self._read(min(self._next_read, left), may_wait)
        cold = cold or self._was_cold
        begin = self.position
        entries.convert(data, begin, cold)
        self.position = entries.position
        self._next_read = READ_BYTES
        self._was_cold = False
        if entries.is_heavy:
            self._was_cold = cold
            raise NeedsThread
        if entries.damaged_at >= 0 or entries.full:
            return False
        if self.position > begin + len(data):  # a large batch was passed over
            self._next_read = HEAD_BYTES
        elif self.position < begin + len(data):
            needed = entries.needed
            if begin + len(data) >= self.end or self.position + needed > self.end:
                self.needed = needed
                return False
            self._next_read = max(needed, READ_BYTES)
            self._was_cold = cold and needed > 0
        return True

    def end_by_length(self, position: int) -> int:
        """Return the end of the entry at ``position`` by its length alone, -1 if that is none. Blocks."""
        head = self._file.read_at(position - self._base, HEAD_BYTES)
        size = size_at(head)
        return position + size if size else -1

    def is_sound(self, position: int) -> bool:
        """Return whether an entry at ``position``, or the range's end, is sound as far as it is read. Blocks."""
        if position >= self.end:
            return position == self.end
        data = self._file.read_at(position - self._base, min(READ_BYTES, self.end - position))
        scanned = loops.scan_set(data, 0, 1)
        return not scanned.problem and (scanned.entries > 0 or size_at(data) > len(data))

    def _read(self, count: int, may_wait: bool) -> tuple[bytes, bool]:
        """Return the next bytes, and whether they came from the disk."""
        at = self.position - self._base
        data = self._file.read_cached(at, count)
        cold = data is None
        if data is None:
            if not may_wait:
                raise NeedsThread
            data = self._file.read_at(at, count)
        if len(data) < count:
            raise OSError(errno.EIO, f"{self._file.path} is shorter than it was: nothing at byte {at + len(data)}")
        self.read_bytes += count
        return data, cold

    def _is_warm(self, position: int, size: int) -> bool:
        at = position - self._base
        return all(
            self._file.is_cached(begin, min(PIECE_BYTES, at + size - begin))
            for begin in range(at, at + size, PIECE_BYTES)
        )
