"""The leader epochs of a log: at which position each begins."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from attrs import frozen

#: The epoch before the first one.
NO_EPOCH = -1


class EpochStart(NamedTuple):
    """One leader epoch and the position of its first entry."""

    epoch: int
    start: int


class EpochEnd(NamedTuple):
    """One leader epoch and the position behind its last entry."""

    epoch: int
    end: int


@frozen
class EpochHistory:
    """The epochs that a log has entries of, ascending in both fields. An epoch ends where the next one begins."""

    starts: tuple[EpochStart, ...] = ()

    @property
    def latest(self) -> int:
        """The last epoch, NO_EPOCH if there is none."""
        return self.starts[-1].epoch if self.starts else NO_EPOCH

    def at(self, position: int) -> int:
        """Return the epoch of the entry that begins at ``position``; NO_EPOCH before the first one."""
        found = bisect_right(self.starts, position, key=lambda each: each.start)
        return self.starts[found - 1].epoch if found else NO_EPOCH

    def before(self, position: int) -> int:
        """Return the epoch of the last entry before ``position``; NO_EPOCH if there is none."""
        found = bisect_left(self.starts, position, key=lambda each: each.start)
        return self.starts[found - 1].epoch if found else NO_EPOCH

    def next_start(self, position: int) -> int | None:
        """Return where the epoch of the entry at ``position`` ends, None for the last epoch."""
        found = bisect_right(self.starts, position, key=lambda each: each.start)
        return self.starts[found].start if found < len(self.starts) else None

    def end_of(self, epoch: int, log_end: int) -> EpochEnd:
        """Return the highest epoch of this log that is at most ``epoch``, and its end.

        For an epoch before the first one: NO_EPOCH, and the start of the first one.
        """
        found = bisect_right(self.starts, epoch, key=lambda each: each.epoch)
        end = self.starts[found].start if found < len(self.starts) else log_end
        return EpochEnd(self.starts[found - 1].epoch if found else NO_EPOCH, min(end, log_end))

    def begun(self, epoch: int, start: int) -> EpochHistory:
        """Return the history in which ``epoch`` begins at ``start``; what contradicts that is left out."""
        kept = [each for each in self.starts if each.epoch < epoch and each.start < start]
        return EpochHistory((*kept, EpochStart(epoch, start)))

    def cut(self, end: int) -> EpochHistory:
        """Return the history of the log cut at ``end``."""
        return EpochHistory(tuple([each for each in self.starts if each.start < end]))

    def followed_by(self, epoch: int, end: int) -> EpochHistory:
        """Return the history of the log that goes on at ``end`` with entries of ``epoch``, NO_EPOCH for those of none.

        An epoch that was to begin there, and of which no entry came, is left out.
        """
        history = self.cut(end)
        return history if epoch in (NO_EPOCH, history.latest) else history.begun(epoch, end)
