"""State changes and watch events that kazoo's thread reports to the session, and the session that they grant."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, frozen

from logd.coord.client_watches import WatchKind
from logd.coord.records import EventType, SessionState


@frozen
class SessionChange:
    """A change of the state of kazoo's session."""

    state: SessionState
    #: The number of the connection; requests name the one that they are meant for.
    connection: int = 0
    session_id: int = 0
    password: bytes = b""
    #: In seconds, as agreed with the server.
    session_timeout: float = 0.0
    #: Not later than the time when the request for this connection was sent, in the clock's seconds.
    sent: float = 0.0


@frozen
class GrantedSession:
    """The session that the servers have granted; its id is 0 while there is none."""

    #: In seconds: as agreed for the latest session, or as asked for before there is one.
    timeout: float
    id: int = 0
    password: bytes = b""
    #: The number of the connection, which requests name.
    connection: int = 0

    @property
    def identity(self) -> tuple[int, bytes] | None:
        """The id and password with which the session is resumed; None if there is no session to resume."""
        return (self.id, self.password) if self.id else None


@define(eq=False)
class SessionCallbacks:
    """The callbacks of a kazoo session, called on the reactor's thread."""

    state: Callable[[SessionChange], None]
    fired: Callable[[WatchKind, str, EventType], None]
    #: Called when kazoo's thread ended by itself: with an exception, or None if the credentials were refused.
    ended: Callable[[BaseException | None], None]
