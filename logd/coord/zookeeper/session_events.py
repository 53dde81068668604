"""State changes and watch events that kazoo's thread reports to the session."""

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


@define(eq=False)
class SessionCallbacks:
    """The callbacks of a kazoo session, called on the reactor's thread."""

    state: Callable[[SessionChange], None]
    fired: Callable[[WatchKind, str, EventType], None]
    #: Called when kazoo's thread ended by itself: with an exception, or None if the credentials were refused.
    ended: Callable[[BaseException | None], None]
