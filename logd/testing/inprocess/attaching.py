"""Keeps an in-process client attached to its session: connects, pings, reconnects, and replaces expired sessions."""

from __future__ import annotations

from collections.abc import Callable

from logd.coord.records import Identity, SessionState, WatchEvent
from logd.coord.tree.attachment import Attachment
from logd.interfaces import Clock, Timer
from logd.testing.inprocess.link import HostLink, LinkConnection


class SessionKeeper:
    """A client's session, from ``start`` to ``close``.

    ``changed(state)`` is called at each change of ``state``, ``notified(event)`` for each watch. ``reconnect`` is the
    pause in seconds between two attempts to reach the host. As ZooKeeper's clients do, it pings three times in a
    session timeout, and gives a connection up when nothing was answered for two thirds of it.
    """

    def __init__(
        self,
        link: HostLink,
        clock: Clock,
        timeout: float,
        reconnect: float,
        identities: tuple[Identity, ...],
        changed: Callable[[SessionState], None],
        notified: Callable[[WatchEvent], None],
    ) -> None:
        self.state = SessionState.SUSPENDED
        self.session_id = 0
        #: In seconds: the timeout asked for, then the timeout granted.
        self.timeout = timeout
        #: The time when the latest answered request was sent.
        self.last_contact = 0.0
        #: Not None while the state is CONNECTED, and while one is being attached.
        self.connection: LinkConnection | None = None
        self._link = link
        self._clock = clock
        self._asked = timeout
        self._reconnect = reconnect
        self._identities = identities
        self._changed = changed
        self._notified = notified
        self._password = b""
        #: The timer of the next step: an attempt to connect, its end, a ping, or the end of closing.
        self._next: Timer | None = None
        self._closed: Callable[[], None] = lambda: None

    def authenticate(self, identity: Identity) -> None:
        """Add an identity, now and on later connections."""
        if identity not in self._identities:
            self._identities = (*self._identities, identity)
            if self.connection is not None:
                self.connection.authenticate(identity)

    def start(self) -> None:
        """Start to open a session."""
        self._connect()

    def heard(self, sent: float) -> None:
        """Note that a request sent at the time ``sent`` was answered."""
        self.last_contact = max(self.last_contact, sent)

    def close(self, seconds: float, closed: Callable[[], None]) -> None:
        """End the session; ``closed()`` once that is answered, after so many seconds, or at once while suspended."""
        connected = self.state is SessionState.CONNECTED
        self._become(SessionState.CLOSED)
        self._closed = closed
        if connected and self.connection is not None:
            self._then(seconds, self._end)
            self.connection.close_session(self._end)
        else:
            self._end()

    def _end(self) -> None:
        self._stop()
        if self.connection is not None:
            self.connection.drop()
            self.connection = None
        closed, self._closed = self._closed, lambda: None
        closed()

    def _connect(self) -> None:
        self._next = None
        self.connection = self._link.connect(self._lost, self._notified)
        if self.connection is None:
            self._then(self._reconnect, self._connect)
        elif self.session_id:
            self._limit_attempt()
            sent = self._clock.seconds()
            self.connection.attach(
                self.session_id, self._password, self._identities, lambda attachment: self._attached(attachment, sent)
            )
        else:
            self._open(self.connection)

    def _open(self, connection: LinkConnection) -> None:
        self._limit_attempt()
        sent = self._clock.seconds()
        connection.open_session(
            int(self._asked * 1000), self._identities, lambda attachment: self._attached(attachment, sent)
        )

    def _attached(self, attachment: Attachment | None, sent: float) -> None:
        if attachment is None:
            self.session_id = 0
            self._become(SessionState.LOST)
            if self.state is SessionState.LOST and self.connection is not None:
                self._open(self.connection)
            return
        self.session_id = attachment.session.id
        self._password = attachment.session.password
        self.timeout = attachment.session.timeout_ms / 1000
        self.last_contact = sent
        self._then(self.timeout / 3, self._ping)
        self._become(SessionState.CONNECTED)

    def _ping(self) -> None:
        now = self._clock.seconds()
        if self.connection is None or now - self.last_contact > self.timeout * 2 / 3:
            self._give_up()
            return
        self.connection.ping(lambda: self.heard(now))
        self._then(self.timeout / 3, self._ping)

    def _limit_attempt(self) -> None:
        self._then(self.timeout * 2 / 3, self._give_up)

    def _give_up(self) -> None:
        if self.connection is not None:
            self.connection.drop()
        self._lost()

    def _lost(self) -> None:
        self.connection = None
        if self.state is SessionState.CLOSED:
            self._end()
            return
        self._then(self._reconnect, self._connect)
        if self.state is SessionState.CONNECTED:
            self._become(SessionState.SUSPENDED)

    def _become(self, state: SessionState) -> None:
        self.state = state
        self._changed(state)

    def _then(self, seconds: float, call: Callable[[], None]) -> None:
        self._stop()
        self._next = self._clock.callLater(seconds, call)

    def _stop(self) -> None:
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next = None
