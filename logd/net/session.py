"""The request handling of one connection as the connection calls it, and the reasons for which it pauses that."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from logd.protocol.conversation.interfaces import Received

if TYPE_CHECKING:
    from logd.net.server import Connection


class Session(Protocol):
    """The request handling of one connection."""

    def take(self, requests: Sequence[Received]) -> int:
        """Take requests in order and return the number taken. Each is answered later by ``Connection.answer``.

        If fewer than all are taken, the next one has to wait, and ``Connection.pause`` or ``end_turn`` was called (the
        pause may be over now).
        """
        ...

    def lost(self) -> None:
        """Stop waiting on behalf of the lost connection."""
        ...


class SessionOpener(Protocol):
    """Opens the session of a new connection, or refuses the connection with None."""

    def open_session(self, connection: Connection) -> Session | None: ...


class PauseReason(Enum):
    """A reason to pause a connection. There may be several at a time; the connection resumes when the last one ends."""

    #: The broker is starting: the topics to serve are not known yet.
    START = "start"
    #: Other connections have their turn before the rest of the backlog is taken.
    TURN = "turn"
    #: A request that takes many turns is not answered yet.
    LONG_REQUEST = "long request"
    #: A topic of a request is being created.
    TOPIC = "topic"
    #: A large message set is being checked.
    CHECK = "check"
    #: The first batch waits for the format of the data directory.
    FORMAT = "format"
    #: The broker reads what the idempotent producers of a partition have sent.
    PRODUCERS = "producers"
    #: A log of a request may not grow yet.
    GROWTH = "growth"
    #: The broker has too many unflushed bytes.
    FLUSH = "flush"
    #: The user has sent more bytes than its quota allows.
    QUOTA_IN = "quota in"
    #: The user has been sent more bytes than its quota allows.
    QUOTA_OUT = "quota out"
    #: As many requests as a quota allows are under way.
    REQUESTS = "requests"
    #: The client's password is being checked, or a wrong one is being answered.
    AUTHENTICATION = "authentication"
