"""Requests that are here in part, or whole and not yet taken: their bytes over all connections, and how long."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from logd.interfaces import Clock
from logd.net.limits.expiry import Expiry


class Sender(Protocol):
    """The part of a connection that is needed here."""

    @property
    def reading(self) -> bool:
        """True while its peer can send."""
        ...

    def close(self, reason: str = "", *, drain: bool = True) -> None:
        """Close, and log a reason; without ``drain`` at once."""
        ...


class RequestMemory:
    """Keeps what all connections hold of requests below a limit, and each of them below a time.

    Above the limit the connection goes whose request has been under way the longest. A frame's size is no reason to
    close, for a peer may send the largest frame allowed, nor is it one to make others wait: a few peers that never
    finish would then keep out everybody. The longest under way is the one that does not get on.

    A connection that is not read (its producer is paused, its topic is being made) cannot get on: it goes only where no
    other holds anything, and its request is as new as any when it is read again.
    """

    def __init__(self, clock: Clock, limit_bytes: int, seconds: float | None) -> None:
        """``seconds``: None for no limit on the time."""
        self._limit = limit_bytes
        self._kept: OrderedDict[Sender, int] = OrderedDict()
        self._seconds = seconds or 0.0
        self._expiry = Expiry(clock, self._seconds, self._late) if seconds is not None else None
        self.total_bytes = 0

    def keeps(self, sender: Sender, count: int, begun: bool) -> None:
        """``sender`` holds ``count`` bytes now; ``begun``: they are of another request than before."""
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
        """The connection is gone."""
        self.total_bytes -= self._kept.pop(sender, 0)
        if self._expiry is not None:
            self._expiry.leave(sender)

    def restart(self, sender: Sender) -> None:
        """Count its time from now on: it was not read from, and is again."""
        if sender in self._kept:
            self._kept.move_to_end(sender)
            if self._expiry is not None:
                self._expiry.begin(sender)

    def stop(self) -> None:
        """Leave no timer behind."""
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
            f"the requests of all connections that are not complete hold {total} bytes, more than frames.bytes = "
            f"{self._limit}, and its own, of {kept} bytes, is the oldest",
            drain=False,
        )

    def _late(self, sender: Sender) -> None:
        if not sender.reading:  # not its fault
            self.restart(sender)
            return
        kept = self._kept[sender]
        sender.close(
            f"its request was not complete within frame.ms = {self._seconds * 1000:.0f}: {kept} bytes came", drain=False
        )
