"""Tracks the last contact with the server by probes on a timer of our own, and gives up a silent connection."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

from logd.interfaces import Clock, Timer

#: Checks in one session timeout. A probe is sent at each, unless one is under way ...
LOOKS = 6
#: ... and the connection of a probe without an answer for this many checks is given up: two thirds of the session
#: timeout, as the Java client of ZooKeeper gives up a silent server (ClientCnxn: readTimeout = sessionTimeout * 2 / 3).
PATIENCE = 4


class Heartbeat:
    """Keeps ``last``: the time when the latest answered request, a probe or another, was *sent*.

    The time of sending counts because the server had heard from the client by then; an answer says nothing about later.
    So with ``t`` seconds of session timeout a session is not over before ``last + t``. Patience is counted in checks,
    not in seconds: a process that was stopped for a while reads the waiting answers before it gives anything up.
    """

    def __init__(self, clock: Clock, probe: Callable[[], Deferred[object]], give_up: Callable[[], None]) -> None:
        self.last = clock.seconds()
        self._clock = clock
        self._probe = probe
        self._give_up = give_up
        self._interval = 0.0
        self._timer: Timer | None = None
        self._under_way: object | None = None
        self._looks = 0

    def begin(self, sent: float, session_timeout: float) -> None:
        """Start with a connection that was made by a request sent at ``sent``."""
        self.end()
        self.last = max(self.last, sent)
        self._interval = session_timeout / LOOKS
        self._timer = self._clock.callLater(self._interval, self._look)

    def heard(self, sent: float) -> None:
        """Note the answer to a request sent at ``sent`` that only the leader of the servers can answer."""
        self.last = max(self.last, sent)

    def end(self) -> None:
        """Stop, since the connection is gone."""
        self._under_way = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = self._clock.callLater(self._interval, self._look)
        if self._under_way is None:
            self._looks = 0
            token = self._under_way = object()
            self._probe().addBoth(lambda _: self._over(token))
        else:
            self._looks += 1
            if self._looks == PATIENCE:
                self._give_up()

    def _over(self, token: object) -> None:
        if self._under_way is token:
            self._under_way = None
