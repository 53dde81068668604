"""Logs that no server of a coordination tree answers, once that has lasted, and that one answers again."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from logd.interfaces import Clock, Timer

#: Seconds without a server until the first warning.
WARN_SECONDS = 3.0
#: Seconds until the warning is repeated.
REMIND_SECONDS = 600.0


class UnansweredWarning:
    """The warnings of one client. ``last_contact()`` is the time of the last contact (the clock's seconds)."""

    _log = Logger()

    def __init__(self, clock: Clock, hosts: str, last_contact: Callable[[], float]) -> None:
        self._clock = clock
        self._hosts = hosts
        self._last_contact = last_contact
        self._timer: Timer | None = None
        self._warned = False

    def begin(self, longest: float) -> None:
        """Warn after WARN_SECONDS, or ``longest`` if that is less, unless a server answers before."""
        self.end()
        self._timer = self._clock.callLater(min(WARN_SECONDS, longest), self._warn)

    def answered(self) -> None:
        """Stop the warnings, since a server has answered; log that if there was a warning."""
        self.end()
        if self._warned:
            self._warned = False
            self._log.warn("the coordination tree at {hosts} answers again", hosts=self._hosts)

    def end(self) -> None:
        """Stop the warnings."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _warn(self) -> None:
        self._warned = True
        self._log.warn(
            "no server of {hosts} has answered for {seconds:.0f} s: are they running, and can they be reached?",
            hosts=self._hosts,
            seconds=self._clock.seconds() - self._last_contact(),
        )
        self._timer = self._clock.callLater(REMIND_SECONDS, self._warn)
