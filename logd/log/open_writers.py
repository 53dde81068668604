"""Last segments that are open for appending: a bounded number, however many partitions there are."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from attrs import define, field

#: Logs tried in the search for an idle one. If all of these are busy, one more file stays open for now. Busy logs wait
#: for the disk, so ``unflushed.bytes`` bounds their number.
_TRIES = 16


class Closable(Protocol):
    """The part of PartitionLog that OpenWriters needs; tests open stand-ins."""

    def close_idle(self) -> bool:
        """Close the last segment's file unless some of it waits for the disk; return whether it was closed."""
        ...


@define(eq=False)
class OpenWriters:
    """The logs whose last segment is open. Of the idle ones the least recently opened is closed first.

    An append to a closed one opens it again, which takes some 10 us.
    """

    limit: int
    _logs: OrderedDict[Closable, None] = field(factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._logs)

    def opened(self, log: Closable) -> None:
        """Count ``log`` as open, and close others while there are too many."""
        self._logs.pop(log, None)  # it was open before, if it has begun another segment
        self._logs[log] = None
        for _ in range(min(_TRIES, len(self._logs) - 1)):
            if len(self._logs) <= self.limit:
                return
            other, _value = self._logs.popitem(last=False)
            if not other.close_idle():
                self._logs[other] = None

    def closed(self, log: Closable) -> None:
        """Count ``log`` as closed."""
        self._logs.pop(log, None)
