"""Losses: what a consumer passed of a log without delivering it, and how each is told."""

from __future__ import annotations

from typing import NamedTuple

from attrs import define, field


class Loss(NamedTuple):
    """Messages of one partition that were not delivered, between the positions ``start`` and ``end``.

    ``kind`` is ``gap`` (removed from the log: by a repair, or in the place of a segment that was lost), ``damage``
    (skipped, since ``on_corrupt`` is "skip") or ``jump`` (the position was outside of the log, and reading went on
    elsewhere, as ``on_out_of_range`` says). Around gaps there may be messages between the two that were delivered.
    """

    topic: str
    partition: int
    kind: str
    start: int
    #: Where reading went on: below ``start`` where the log ended before it.
    end: int
    #: Bytes of log that are lost. None for a jump: how many messages it were is not known, and the distance says
    #: nothing of it, since a log that was lost begins anew far above every id that it gave.
    bytes: int | None
    reason: str

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}: {self.reason}"


@define(eq=False)
class LossTelling:
    """Chooses what to say of many losses: each jump at once; of gaps and damage the first, and sums as they double.

    So a log of a million gaps makes twenty lines, and none is left out of the sums.
    """

    _sums: dict[str, _Sum] = field(factory=dict, init=False)

    def told(self, loss: Loss) -> list[str]:
        """Take a loss; return the lines to write now."""
        if loss.bytes is None:
            return [str(loss)]
        found = self._sums.setdefault(loss.kind, _Sum())
        found.add(loss)
        return [found.line()] if found.count >= 2 * found.said else []

    def rest(self) -> list[str]:
        """Return lines with the sums that were not told yet."""
        return [found.line() for found in self._sums.values() if found.count > found.said]


@define
class _Sum:
    """The losses of one kind."""

    count: int = 0
    bytes: int = 0
    #: The count when it was last told.
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
        return f"{self.last} ({self.count} such losses by now, {self.bytes} bytes)"
