"""Sleeps of coroutines, on a clock: each is cancellable, and leaves no timer behind."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.interfaces import Clock


def sleep(clock: Clock, seconds: float) -> Deferred[None]:
    """Return a Deferred that fires after ``seconds``. Cancelling it cancels the timer."""
    sleeping: Deferred[None] = Deferred(lambda _: timer.cancel())
    timer = clock.callLater(seconds, sleeping.callback, None)
    return sleeping


class InterruptibleSleep:
    """The sleeps of one coroutine, one at a time, which other code may end early."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._interruptible: Deferred[None] | None = None

    @property
    def can_be_woken(self) -> bool:
        """Return whether a sleep is under way that ``wake`` ends."""
        return self._interruptible is not None

    def sleep(self, seconds: float | None, *, interruptible: bool = True) -> Deferred[None]:
        """Return a Deferred that fires after ``seconds`` (None: never by itself), or at ``wake``. Cancellable.

        A sleep that is not ``interruptible`` goes on at ``wake``, which is then without effect.
        """
        sleeping: Deferred[None] = Deferred()
        timer = None if seconds is None else self._clock.callLater(seconds, sleeping.callback, None)
        self._interruptible = sleeping if interruptible else None

        def ended(result: None) -> None:
            if self._interruptible is sleeping:
                self._interruptible = None
            if timer is not None and timer.active():
                timer.cancel()
            return result

        return sleeping.addBoth(ended)

    def wake(self) -> None:
        """End the sleep, if an interruptible one is under way."""
        sleeping, self._interruptible = self._interruptible, None
        if sleeping is not None:
            sleeping.callback(None)
