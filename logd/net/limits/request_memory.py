"""Memory and time limits on requests that are incomplete or not yet taken, over all connections."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from logd.interfaces import Clock
from logd.net.limits.expiry import Expiry


class Sender(Protocol):
    """The members of a connection that are used here."""

    @property
    def reading(self) -> bool:
        """True while the peer can send."""
        ...

    def close(self, reason: str = "", *, drain: bool = True) -> None:
        """Close and log the reason, if any; without ``drain`` at once."""
        ...


class RequestMemory:
    """Keeps the request bytes of all connections below a limit, and the time for each request too.

    Above the limit the connection is closed whose request has been under way the longest, as it makes no progress. The
    size of a request is no criterion, since a peer may send the largest frame allowed. Making others wait would not do
    either, since a few peers that never finish would then lock out the rest.

    A connection that is not read (its producer is paused, its topic is being created) cannot make progress. It is
    closed only if no other holds any bytes, and its request counts as new when it is read again.
    """

    def __init__(self, clock: Clock, limit_bytes: int, seconds: float | None) -> None:
        """``seconds``: the time for a request, None for no limit."""
        self._limit = limit_bytes
        self._kept: OrderedDict[Sender, int] = OrderedDict()
        self._seconds = seconds or 0.0
        self._expiry = Expiry(clock, self._seconds, self._late) if seconds is not None else None
        self.total_bytes = 0

    def keeps(self, sender: Sender, count: int, begun: bool) -> None:
        """Note that ``sender`` holds ``count`` bytes now. ``begun``: they belong to a new request."""
        before = self._kept.get(sender, 0)
        self.total_bytes += count - before
        if not count:
            if before:
                del self._kept[sender]
                if self._expiry is not None:
                    self._expiry.end(sender)
            return
        self._kept[sender] = count
        if begun or not before:
            self.restart(sender)
        while self.total_bytes > self._limit:
            self._shed()

    def leave(self, sender: Sender) -> None:
        """Forget a connection that is lost."""
        self.total_bytes -= self._kept.pop(sender, 0)
        if self._expiry is not None:
            self._expiry.leave(sender)

    def restart(self, sender: Sender) -> None:
        """Restart the request's time, as the connection is read again."""
        if sender in self._kept:
            self._kept.move_to_end(sender)
            if self._expiry is not None:
                self._expiry.begin(sender)

    def stop(self) -> None:
        """Cancel the timer."""
        if self._expiry is not None:
            self._expiry.stop()

    def _shed(self) -> None:
        total = self.total_bytes
        oldest = next(iter(self._kept))
        sender = next((each for each in self._kept if each.reading), oldest)
        kept = self._kept.pop(sender)
        self.total_bytes -= kept
        if self._expiry is not None:
            self._expiry.end(sender)
        sender.close(
            f"the incomplete requests of all connections have {total} bytes, more than frames.bytes = {self._limit}, "
            f"and its own, of {kept} bytes, is the oldest",
            drain=False,
        )

    def _late(self, sender: Sender) -> None:
        if not sender.reading:  # not the peer's fault
            self.restart(sender)
            return
        kept = self._kept[sender]
        sender.close(
            f"its request was not complete within frame.ms = {self._seconds * 1000:.0f}: {kept} bytes arrived",
            drain=False,
        )
