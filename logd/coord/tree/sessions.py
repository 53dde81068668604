"""Sessions: what the tree keeps of each, and when each was last heard of."""

from __future__ import annotations

from attrs import field, frozen


@frozen
class TreeSession:
    """What the tree keeps of a session. Its id is the zxid of the change that opened it: none is ever used again."""

    id: int
    timeout_ms: int
    password: bytes = field(repr=False)


class SessionTracker:
    """When each session was last heard of, and which are due to expire. Times are seconds of one clock.

    Time in which the process stood still (stopped, suspended, swapped out, or busy with something else) never counts:
    between two calls at most ``longest_step`` seconds pass, however much the clock has moved. So ``due`` has to be
    called more often than that.

    What clients sent meanwhile has to be taken before anybody is expired: the caller lets every pending read of a
    socket be handled between one ``due`` and the next, and expires only who was due in both.
    """

    def __init__(self, now: float, longest_step: float) -> None:
        self._clock = now
        #: Seconds that count since the beginning.
        self._counted = 0.0
        self._longest_step = longest_step
        self._timeouts: dict[int, float] = {}
        self._deadlines: dict[int, float] = {}

    def add(self, session_id: int, timeout: float, now: float) -> None:
        """Begin with a session, which has its full ``timeout`` (seconds) from now."""
        self._advance(now)
        self._timeouts[session_id] = timeout
        self._deadlines[session_id] = self._counted + timeout

    def heard(self, session_id: int, now: float) -> None:
        """The session's client was heard of. Sessions that are not known are ignored."""
        if now != self._clock:
            self._advance(now)
        timeout = self._timeouts.get(session_id)
        if timeout is not None:
            self._deadlines[session_id] = self._counted + timeout

    def remove(self, session_id: int) -> None:
        """The session is over. Harmless when it is not known."""
        self._timeouts.pop(session_id, None)
        self._deadlines.pop(session_id, None)

    def due(self, now: float) -> list[int]:
        """The sessions that were not heard of for their timeout, longest due first."""
        self._advance(now)
        found = [(deadline, id_) for id_, deadline in self._deadlines.items() if deadline <= self._counted]
        return [id_ for _, id_ in sorted(found)]

    def _advance(self, now: float) -> None:
        passed = now - self._clock
        if passed > 0:
            self._counted += passed if passed < self._longest_step else self._longest_step
        self._clock = now
