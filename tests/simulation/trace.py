"""What happened, in its order: a hash of it all, and the lines themselves when they are asked for."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from attrs import define, field


@define(eq=False)
class Trace:
    """Two runs of a seed are the same when ``digest`` is, after each step."""

    now: Callable[[], float]
    #: Given each line, if anybody wants to read them.
    show: Callable[[str], None] | None = None
    begin: float = 0.0
    _crc: int = field(default=0, init=False)
    events: int = field(default=0, init=False)

    def note(self, who: str, what: str, detail: object = "") -> None:
        """Something happened."""
        self.events += 1
        line = f"{self.now() - self.begin:.6f} {who} {what} {detail}"
        self._crc = zlib.crc32(line.encode(), self._crc)
        if self.show is not None:
            self.show(line)

    def passed(self, who: str, data: bytes) -> None:
        """Bytes arrived somewhere."""
        self.events += 1
        self._crc = zlib.crc32(data, zlib.crc32(who.encode(), self._crc))

    @property
    def digest(self) -> str:
        """The hash of everything so far."""
        return f"{self._crc:08x}-{self.events}"
