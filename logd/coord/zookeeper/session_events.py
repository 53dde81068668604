"""What the thread of a connection to the coordination tree has to tell, and to whom."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, frozen

from logd.coord.records import EventType, SessionState
from logd.coord.watches import WatchKind


@frozen
class Told:
    """What kazoo's thread tells of its session."""

    state: SessionState
    #: Counts the connections; requests name the one that they are meant for.
    connection: int = 0
    session_id: int = 0
    password: bytes = b""
    #: In seconds, as agreed with the server.
    session_timeout: float = 0.0
    #: Not later than when the request for this connection was sent, in the clock's seconds.
    sent: float = 0.0


@define(eq=False)
class Events:
    """Who is told, on the reactor's thread."""

    state: Callable[[Told], None]
    fired: Callable[[WatchKind, str, EventType], None]
    #: kazoo's thread came to its end by itself: with an exception, or None where the credentials were refused.
    ended: Callable[[BaseException | None], None]
