"""Waits for a client's session to come into a state, without sleeping."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState


class SessionStates:
    """Records every state that a client's session comes into, in order."""

    def __init__(self, coordination: ICoordination) -> None:
        self.seen: list[SessionState] = []
        self._waiting: list[tuple[SessionState, Deferred[None]]] = []
        coordination.subscribe(self._changed)

    def next(self, state: SessionState) -> Deferred[None]:
        """Return a Deferred that fires when the session next comes into ``state``."""
        waiting: Deferred[None] = Deferred()
        self._waiting.append((state, waiting))
        return waiting

    def _changed(self, state: SessionState) -> None:
        self.seen.append(state)
        waiting, self._waiting = self._waiting, []
        for wanted, deferred in waiting:
            if wanted is state:
                deferred.callback(None)
            else:
                self._waiting.append((wanted, deferred))
