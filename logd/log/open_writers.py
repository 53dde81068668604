"""Last segments that are open for appending: a bounded number of them, however many partitions there are."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from attrs import define, field

#: How many are looked at for one that can be closed. When all of these are busy one more stays open for now: busy means
#: that it waits for the disk, and no more than ``unflushed.bytes`` can.
_TRIES = 16


class Closable(Protocol):
    """A partition log, as far as it is needed here."""

    def close_idle(self) -> bool:
        """Close the last segment's file if nothing of it waits for the disk; return whether that was so."""
        ...


@define(eq=False)
class OpenWriters:
    """The least recently opened one that is idle is closed first: an append then opens it again (some 10 us)."""

    limit: int
    _logs: OrderedDict[Closable, None] = field(factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._logs)

    def opened(self, log: Closable) -> None:
        """Count ``log``, and close others when there are too many."""
        self._logs[log] = None
        for _ in range(min(_TRIES, len(self._logs) - 1)):
            if len(self._logs) <= self.limit:
                return
            other, _value = self._logs.popitem(last=False)
            if not other.close_idle():
                self._logs[other] = None

    def closed(self, log: Closable) -> None:
        """Count ``log`` no longer."""
        self._logs.pop(log, None)
