"""Losses: parts of a log that a consumer passed without delivering them, and their reports."""

from __future__ import annotations

from typing import NamedTuple

from attrs import define, field
from twisted.logger import Logger

from logd.plurals import counted


class Loss(NamedTuple):
    """Messages of one partition that were not delivered, between the positions ``start`` and ``end``.

    ``kind`` is ``gap`` (removed from the log by a repair, or in the place of a lost segment), ``damage`` (skipped,
    since ``on_corrupt`` is "skip") or ``jump`` (the position was outside of the log, and reading continued elsewhere,
    as ``on_out_of_range`` says). Around gaps, messages between the two positions may have been delivered.
    """

    topic: str
    partition: int
    kind: str
    start: int
    #: The position at which reading continued: below ``start`` if the log ended before it.
    end: int
    #: Bytes of log that are lost. None for a jump: the number of messages is not known, and the distance says nothing
    #: about it, since a log that was lost begins anew far above every id that it gave.
    bytes: int | None
    reason: str

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}: {self.reason}"


@define(eq=False)
class LossReporter:
    """Log lines for many losses: each jump at once; of gaps and damage the first, and sums as they double.

    So a log of a million gaps makes twenty lines, and all gaps are in the sums.
    """

    _sums: dict[str, _Sum] = field(factory=dict, init=False)

    def add(self, loss: Loss) -> list[str]:
        """Add a loss; return the lines to write now."""
        if loss.bytes is None:
            return [str(loss)]
        found = self._sums.setdefault(loss.kind, _Sum())
        found.add(loss)
        return [found.line()] if found.count >= 2 * found.said else []

    def rest(self) -> list[str]:
        """Return lines with the sums that were not reported yet."""
        return [found.line() for found in self._sums.values() if found.count > found.said]


@define
class _Sum:
    """The sum of the losses of one kind."""

    count: int = 0
    bytes: int = 0
    #: The count when it was last reported.
    said: int = 0
    last: Loss | None = None

    def add(self, loss: Loss) -> None:
        self.count += 1
        self.bytes += loss.bytes or 0
        self.last = loss

    def line(self) -> str:
        self.said = self.count
        if self.count == 1:
            return str(self.last)
        return f"{self.last} ({self.count} such losses by now, {counted(self.bytes, 'byte')})"


@define(eq=False)
class PartitionLosses:
    """The losses of one partition: counted, logged, and kept until a batch reports them."""

    _log = Logger()

    topic: str
    partition: int
    #: Gaps passed, and their bytes.
    gaps: int = field(default=0, init=False)
    gap_bytes: int = field(default=0, init=False)
    #: Damaged places skipped, and their bytes.
    skipped: int = field(default=0, init=False)
    skipped_bytes: int = field(default=0, init=False)
    #: Number of times that the position was not in the log and another one was taken.
    jumps: int = field(default=0, init=False)
    _untold: list[Loss] = field(factory=list, init=False)
    _reporter: LossReporter = field(factory=LossReporter, init=False)

    def gap(self, start: int, end: int, count: int, size: int) -> None:
        """Add ``count`` gaps of ``size`` bytes in all, between two positions."""
        self.gaps += count
        self.gap_bytes += size
        what = f"{counted(count, 'gap')} of {counted(size, 'byte')}"
        self._add("gap", start, end, size, f"{what} between {start} and {end}, whose messages are no more")

    def damage(self, start: int, end: int, what: str) -> None:
        """Add damage that is skipped; ``what`` describes it."""
        size = end - start
        self.skipped += 1
        self.skipped_bytes += size
        self._add("damage", start, end, size, f"skipping the damage at {start}, {size} bytes: {what}")

    def jump(self, start: int, position: int, why: str) -> None:
        """Add a jump: reading continues at ``position`` in place of ``start``."""
        self.jumps += 1
        reason = f"{why}: an unknown number of messages is lost; going on at {position}"
        self._add("jump", start, position, None, reason)

    def take(self) -> tuple[Loss, ...]:
        """Return the losses for the next batch to report: those that no batch has reported yet."""
        losses, self._untold = tuple(self._untold), []
        return losses

    def close(self) -> None:
        """Log the losses that are not logged yet."""
        self._write(self._reporter.rest())

    def _add(self, kind: str, start: int, end: int, size: int | None, reason: str) -> None:
        loss = Loss(self.topic, self.partition, kind, start, end, size, reason)
        self._untold.append(loss)
        self._write(self._reporter.add(loss))

    def _write(self, lines: list[str]) -> None:
        for line in lines:
            self._log.warn("{line}", line=line)
