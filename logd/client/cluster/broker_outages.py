"""Log lines about a broker that has been away for a few seconds, and about its return."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from logd.interfaces import Clock, Timer

#: Seconds without a connection before a warning: longer than the gap of a restart.
WARN_SECONDS = 3.0


class BrokerOutage:
    """The outage of one broker.

    ``name`` is the broker's address as people write it. ``attempt`` makes an attempt to connect, or joins the one under
    way: a client without anything to send makes none by itself, and the warnings must be true.
    """

    _log = Logger()

    def __init__(self, clock: Clock, name: str, attempt: Callable[[], None]) -> None:
        self._clock = clock
        self._name = name
        self._attempt = attempt
        self._since: float | None = None
        self._reason = ""
        #: True when an attempt has begun since the connection was lost.
        self._tried = False
        self._told = False
        self._timer: Timer | None = None
        #: True once the broker is known to be at another address.
        self._moved = False

    def lost(self, reason: str) -> None:
        """Begin an outage: the connection has ended."""
        self._reason = reason
        self._begin()

    def trying(self) -> None:
        """Note that an attempt to connect begins."""
        if self._since is None:
            self._reason = "no answer to the attempt to connect"
        self._tried = True
        self._begin()

    def failed(self, reason: str) -> None:
        """Note a failed attempt to connect; warnings give the latest reason."""
        self._reason = reason
        if self._timer is None and self._since is not None:
            self._tell()
            self._attempt()

    def over(self) -> None:
        """End the outage: there is a connection."""
        if self._told and self._since is not None:
            seconds = self._clock.seconds() - self._since
            self._log.warn(
                "the broker at {name} is connected again, after {seconds:.0f} seconds",
                name=self._name, seconds=seconds,
            )  # fmt: skip
        self._end()
        self._moved = False

    def moved(self) -> None:
        """End the outage, and begin none by itself: the broker is at another address now."""
        self._end()
        self._moved = True

    def close(self) -> None:
        """End the outage without a line in the log."""
        self._end()

    def _begin(self) -> None:
        if self._since is None and not self._moved:
            self._since = self._clock.seconds()
            self._timer = self._clock.callLater(WARN_SECONDS, self._due)

    def _due(self) -> None:
        self._timer = None
        if self._tried:
            self._tell()
        self._attempt()

    def _tell(self) -> None:
        if self._told or self._since is None:
            return
        self._told = True
        self._log.warn(
            "no connection to the broker at {name} for {seconds:.0f} seconds ({reason}); still trying",
            name=self._name, seconds=self._clock.seconds() - self._since, reason=self._reason,
        )  # fmt: skip

    def _end(self) -> None:
        self._since, self._tried, self._told = None, False, False
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
