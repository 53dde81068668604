"""Says in the log that a broker is away, once that has lasted a few seconds, and that it is back."""

from __future__ import annotations

from twisted.logger import Logger

from logd.interfaces import Clock, Timer

#: Seconds without a connection after which a person wants to know: longer than a restart's gap.
WARN_SECONDS = 3.0


class Absence:
    """The absence of one broker. ``name`` is its address as people write it."""

    _log = Logger()

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock = clock
        self._name = name
        self._since: float | None = None
        self._reason = ""
        self._told = False
        self._timer: Timer | None = None

    def noticed(self, reason: str) -> None:
        """There is no connection, or another attempt has failed; the latest reason is the one that is told."""
        self._reason = reason
        if self._since is None:
            self._since = self._clock.seconds()
            self._timer = self._clock.callLater(WARN_SECONDS, self._tell)

    def over(self) -> None:
        """There is a connection."""
        if self._told and self._since is not None:
            seconds = self._clock.seconds() - self._since
            self._log.warn(
                "the broker at {name} is connected again, after {seconds:.0f} seconds",
                name=self._name, seconds=seconds,
            )  # fmt: skip
        self._end()

    def close(self) -> None:
        """Nobody wants to know any more."""
        self._end()

    def _tell(self) -> None:
        self._timer = None
        self._told = True
        self._log.warn(
            "no connection to the broker at {name} for {seconds:.0f} seconds ({reason}); it is tried again and again",
            name=self._name, seconds=WARN_SECONDS, reason=self._reason,
        )  # fmt: skip

    def _end(self) -> None:
        self._since, self._told = None, False
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
