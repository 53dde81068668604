"""The end of a client's session: its callers wait until the servers have confirmed the close, or for a limited time."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred

from logd.deferreds.waiting import OneTimeEvent
from logd.interfaces import Clock, Timer


class Farewell:
    """The farewell of one session. It is over once ``said`` is called, or the limit that ``begin`` sets is reached."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._over = OneTimeEvent()
        self._limit: Timer | None = None

    def begin(self, limit: float) -> None:
        """Wait for the servers from now on, at most ``limit`` seconds."""
        self._limit = self._clock.callLater(limit, self.said)

    def said(self) -> None:
        """Note that the session is closed, or that there was none. Has no effect a second time."""
        if self._limit is not None and self._limit.active():
            self._limit.cancel()
        self._over.happen()

    def wait(self) -> Deferred[None]:
        """Return a Deferred that fires when the farewell is over, at once if it is, or when cancelled. Never fails."""
        return self._over.wait().addErrback(lambda failure: failure.trap(CancelledError) and None)
