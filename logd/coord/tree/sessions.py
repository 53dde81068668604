"""Sessions: the tree's record of each, and the time of the last contact with its client."""

from __future__ import annotations

from attrs import field, frozen


@frozen
class TreeSession:
    """A session in the tree. Its id is the zxid of the change that opened it: no id is ever reused."""

    id: int
    timeout_ms: int
    password: bytes = field(repr=False)


class SessionTracker:
    """Tracks the last contact with each session's client, and expiry. Times are seconds of one clock.

    Time in which the process stood still (stopped, suspended, swapped out, or busy) never counts: between two calls at
    most ``longest_step`` seconds pass, however much the clock has moved. So ``due`` must be called more often.

    Input that clients sent meanwhile must be read before a session is expired: the caller lets every pending read of a
    socket be handled between one ``due`` and the next, and expires only sessions that were due in both.
    """

    def __init__(self, now: float, longest_step: float) -> None:
        self._clock = now
        #: The seconds that count since the start.
        self._counted = 0.0
        self._longest_step = longest_step
        self._timeouts: dict[int, float] = {}
        self._deadlines: dict[int, float] = {}

    def add(self, session_id: int, timeout: float, now: float) -> None:
        """Track a session, which has its full ``timeout`` (seconds) from now."""
        self._advance(now)
        self._timeouts[session_id] = timeout
        self._deadlines[session_id] = self._counted + timeout

    def heard(self, session_id: int, now: float) -> None:
        """Restart the session's timeout. Unknown sessions are ignored."""
        if now != self._clock:
            self._advance(now)
        timeout = self._timeouts.get(session_id)
        if timeout is not None:
            self._deadlines[session_id] = self._counted + timeout

    def remove(self, session_id: int) -> None:
        """Stop tracking a session. Unknown sessions are ignored."""
        self._timeouts.pop(session_id, None)
        self._deadlines.pop(session_id, None)

    def due(self, now: float) -> list[int]:
        """Return the sessions whose timeout is over, longest overdue first."""
        self._advance(now)
        found = [(deadline, id_) for id_, deadline in self._deadlines.items() if deadline <= self._counted]
        return [id_ for _, id_ in sorted(found)]

    def _advance(self, now: float) -> None:
        passed = now - self._clock
        if passed > 0:
            self._counted += passed if passed < self._longest_step else self._longest_step
        self._clock = now
