"""The trace of a run: a hash over all events in order, and their lines when they are wanted."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from attrs import define, field


@define(eq=False)
class Trace:
    """The events of one run; two runs of a seed are the same when their digests are."""

    now: Callable[[], float]
    #: Called with each line, None when the lines are not wanted.
    show: Callable[[str], None] | None = None
    begin: float = 0.0
    _crc: int = field(default=0, init=False)
    events: int = field(default=0, init=False)

    def note(self, who: str, what: str, detail: object = "") -> None:
        """Add an event."""
        self.events += 1
        line = f"{self.now() - self.begin:.6f} {who} {what} {detail}"
        self._crc = zlib.crc32(line.encode(), self._crc)
        if self.show is not None:
            self.show(line)

    def passed(self, who: str, data: bytes) -> None:
        """Add the arrival of bytes at ``who``."""
        self.events += 1
        self._crc = zlib.crc32(data, zlib.crc32(who.encode(), self._crc))

    @property
    def digest(self) -> str:
        """The hash and number of all events so far."""
        return f"{self._crc:08x}-{self.events}"
