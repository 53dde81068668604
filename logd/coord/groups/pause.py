"""The sleeps of one coroutine, which others may end before their time."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.interfaces import Clock


class Pause:
    """One sleep at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wakeful: Deferred[None] | None = None

    @property
    def can_be_woken(self) -> bool:
        """Whether somebody sleeps whom ``wake`` wakes."""
        return self._wakeful is not None

    async def sleep(self, seconds: float | None, wakeful: bool = True) -> None:
        """Sleep until it is time (None: for ever), or until somebody calls ``wake`` (``wakeful``)."""
        pause: Deferred[None] = Deferred()
        timer = None if seconds is None else self._clock.callLater(seconds, _end, pause)
        self._wakeful = pause if wakeful else None
        try:
            await pause
        finally:
            self._wakeful = None
            if timer is not None and timer.active():
                timer.cancel()

    def wake(self) -> None:
        """End the sleep, if there is one that may be ended."""
        if self._wakeful is not None:
            _end(self._wakeful)


def _end(pause: Deferred[None]) -> None:
    if not pause.called:
        pause.callback(None)
