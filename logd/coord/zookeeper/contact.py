"""When the server was last heard of, and what follows when it is not: a probe on a timer of our own."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

from logd.interfaces import Clock, Timer

#: Looks in one session timeout. A probe leaves at each, unless one is under way ...
LOOKS = 6
#: ... and one that is under way for as many looks is given up with its connection: two thirds of the session timeout,
#: as the Java client of ZooKeeper gives up a silent server (ClientCnxn: readTimeout = sessionTimeout * 2 / 3).
PATIENCE = 4


class Contact:
    """Keeps ``last``: when the latest request that was answered had been *sent*, of a probe or of another.

    The moment of sending, since it is what the server had heard by then that keeps a session alive; an answer says
    nothing about later. So with ``t`` seconds of session timeout a session is not over before ``last + t``.
    Patience is counted in looks, not in seconds: a process that was stopped for a while hears the answers that wait
    for it before it gives anything up.
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
        """A connection was made by a request that was sent at ``sent``."""
        self.end()
        self.last = max(self.last, sent)
        self._interval = session_timeout / LOOKS
        self._timer = self._clock.callLater(self._interval, self._look)

    def heard(self, sent: float) -> None:
        """A request was answered that was sent at ``sent`` and that only the leader of the servers can answer."""
        self.last = max(self.last, sent)

    def end(self) -> None:
        """The connection is gone."""
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
