"""Serves one tree to many connections: sessions and their expiry, and no answer before what it shows is flushed.

Requests are executed in memory at once, in the order in which they come, and each change goes to the journal. Every
answer and every notification waits in one line until the journal has flushed the last change that was made before it,
since it may show that change; while nothing is unflushed it is told before the call returns. So each connection gets
its answers and notifications in one order, a notification before any answer that shows what it tells of, and nobody
ever sees what a crash could take back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import frozen

from logd.coord.records import Identity, Request
from logd.coord.tree.interfaces import CutReason, IAttached, IJournal
from logd.coord.tree.outcome import Notification, Outcome
from logd.coord.tree.sessions import Session, SessionTracker
from logd.coord.tree.tree import Tree
from logd.interfaces import Clock, Timer


@frozen
class SessionLimits:
    """What sessions a host grants. ZooKeeper's with its default tickTime of 2 s are the defaults here."""

    #: A client that asks for less, or more, milliseconds gets these.
    shortest_ms: int = 4_000
    longest_ms: int = 40_000
    #: Seconds between two looks for sessions that are due.
    look: float = 0.5
    #: If more passes between two looks than so many seconds, the process stood still, and the rest does not count.
    stood_still: float = 1.0

    def granted(self, timeout_ms: int) -> int:
        """The timeout that a client gets which asks for this one."""
        return min(max(timeout_ms, self.shortest_ms), self.longest_ms)


class Attachment:
    """One connection's hold on a session. Made by TreeHost.open_session and TreeHost.attach."""

    def __init__(self, host: TreeHost, session: Session, listener: IAttached, identities: tuple[Identity, ...]) -> None:
        self.session = session
        #: As whom access lists know this connection: grows by ``authenticated``.
        self.identities = identities
        #: False once the connection was cut, detached or closed; every call is then ignored.
        self.attached = True
        self._host = host
        self._listener = listener

    def execute(self, request: Request, answered: Callable[[Outcome], None]) -> None:
        """Execute a request; ``answered(outcome)`` once it may be told, perhaps before this returns.

        It is never called once the connection is cut or detached.
        """
        if self.attached:
            self._host.execute(self, request, answered)

    def heard(self) -> None:
        """The client was heard of (a ping, or anything else): its session lives on."""
        if self.attached:
            self._host.heard(self.session.id)

    def authenticated(self, identity: Identity) -> None:
        """From now on the client is known also as this one."""
        if identity not in self.identities:
            self.identities = (*self.identities, identity)

    def close(self, closed: Callable[[], None]) -> None:
        """End the session, as its client asked; ``closed()`` once that is flushed. Ends the attachment too."""
        if self.attached:
            self._host.close(self, closed)

    def detach(self) -> None:
        """The connection is gone: its watches are forgotten, the session lives on until it is due."""
        if self.attached:
            self._host.detach(self)

    def notified(self, zxid: int, notification: Notification) -> None:
        """Tell the connection of a watch, if it is still there."""
        if self.attached:
            self._listener.notified(zxid, notification.event)

    def cut(self, reason: CutReason) -> None:
        """Let the connection go."""
        if self.attached:
            self.attached = False
            self._listener.cut(reason)


class TreeHost:
    """One tree, served. For one thread, the clock's.

    ``random_bytes(count)`` makes the sessions' passwords. ``failed(error)`` is called once if the journal fails: all
    connections have been cut by then, and nothing is served any more.
    """

    def __init__(
        self,
        tree: Tree,
        journal: IJournal,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        limits: SessionLimits = SessionLimits(),
        failed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self.tree = tree
        self.limits = limits
        #: False before ``start``, after ``stop`` and after the journal failed.
        self.serving = False
        self._journal = journal
        self._clock = clock
        self._random_bytes = random_bytes
        self._failed = failed
        self._flushed = tree.zxid
        self._line: deque[tuple[int, Callable[[], None]]] = deque()
        self._telling = False
        self._attachments: dict[int, Attachment] = {}
        self._tracker = SessionTracker(clock.seconds(), limits.stood_still)
        self._look: Timer | None = None

    # The host's own life

    def start(self) -> None:
        """Begin to serve: each session that the tree knows has its full timeout from now."""
        raise NotImplementedError

    def stop(self) -> None:
        """Cut every connection. Sessions live on in the tree, and what is not flushed is not told to anybody."""
        raise NotImplementedError

    # What connections ask for

    def open_session(
        self,
        listener: IAttached,
        timeout_ms: int,
        identities: tuple[Identity, ...],
        opened: Callable[[Attachment], None],
    ) -> None:
        """Open a session for a connection; ``opened(attachment)`` once it is flushed, perhaps before this returns.

        Nothing is called when the host fails or stops meanwhile, but ``listener.cut``.
        """
        raise NotImplementedError

    def attach(
        self, listener: IAttached, session_id: int, password: bytes, identities: tuple[Identity, ...]
    ) -> Attachment | None:
        """Attach a connection to a session that is open; None when there is none of that id and password (any more).

        Another connection that has it is cut (MOVED). Watches are not carried over.
        """
        raise NotImplementedError

    # For Attachment

    def execute(self, attachment: Attachment, request: Request, answered: Callable[[Outcome], None]) -> None:
        """See Attachment."""
        raise NotImplementedError

    def heard(self, session_id: int) -> None:
        """See Attachment."""
        self._tracker.heard(session_id, self._clock.seconds())

    def close(self, attachment: Attachment, closed: Callable[[], None]) -> None:
        """See Attachment."""
        raise NotImplementedError

    def detach(self, attachment: Attachment) -> None:
        """See Attachment."""
        raise NotImplementedError
