"""The link between a client and a tree's host in one process: messages arrive in order, late, or not at all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from zope.interface import implementer

from logd.coord.records import Identity, Request, WatchEvent
from logd.coord.tree.attachment import Attachment
from logd.coord.tree.interfaces import CutReason, IAttached
from logd.coord.tree.outcome import Outcome
from logd.coord.tree.tree_host import TreeHost
from logd.interfaces import Clock, Timer


class HostLink:
    """The link between one client and the host of the tree, which a simulation controls.

    ``host`` may be replaced (the tree was restarted) and be None (nothing listens). ``delay()`` is called for each
    message and returns its delay in seconds; a message never overtakes an earlier one in the same direction.
    ``reachable`` tells whether a new connection can be made; an existing one is ended by ``cut``. ``host_clock``, if it
    differs from the client's, is the clock on which requests arrive at the host, even while the client stands still.
    """

    def __init__(self, host: TreeHost | None, clock: Clock, delay: Callable[[], float] = lambda: 0.0) -> None:
        self.host = host
        self.clock = clock
        self.host_clock = clock
        self.delay = delay
        self.reachable = True
        self._connection: LinkConnection | None = None

    def connect(self, lost: Callable[[], None], notified: Callable[[WatchEvent], None]) -> LinkConnection | None:
        """Make a new connection; None when the host cannot be reached.

        ``lost()`` is called if the connection ends from elsewhere, ``notified(event)`` for each watch that fires.
        """
        if not self.reachable or self.host is None or not self.host.serving:
            return None
        self._connection = LinkConnection(self, self.host, lost, notified)
        return self._connection

    def cut(self) -> None:
        """End the connection, if there is one: messages under way in either direction are lost."""
        if self._connection is not None:
            self._connection.lose()

    def vanish(self) -> None:
        """End the connection because the client is gone: the client is not notified."""
        if self._connection is not None:
            self._connection.drop()
        self.reachable = False


class LinkConnection:
    """One connection, seen from its client: requests are executed on arrival, and the answers come back."""

    def __init__(
        self, link: HostLink, host: TreeHost, lost: Callable[[], None], notified: Callable[[WatchEvent], None]
    ) -> None:
        self._host = host
        self._lost = lost
        self._requests = _Pipe(link, link.host_clock)
        self._answers = _Pipe(link, link.clock)
        self._server = _ServerEnd(self._answers, notified, self.lose)

    def open_session(
        self,
        timeout_ms: int,
        identities: tuple[Identity, ...],
        opened: Callable[[Attachment | None], None],
    ) -> None:
        """Ask for a new session."""

        def arrive() -> None:
            self._server.attachment = self._host.open_session(
                self._server, timeout_ms, identities, lambda attachment: self._answers.send(opened, attachment)
            )

        self._requests.send(arrive)

    def attach(
        self,
        session_id: int,
        password: bytes,
        identities: tuple[Identity, ...],
        attached: Callable[[Attachment | None], None],
    ) -> None:
        """Ask for an existing session; ``attached(None)`` when it is over."""

        def arrive() -> None:
            self._server.attachment = self._host.attach(
                self._server,
                session_id,
                password,
                identities,
                lambda attachment: self._answers.send(attached, attachment),
            )

        self._requests.send(arrive)

    def execute(self, request: Request, answered: Callable[[Outcome], None]) -> None:
        """Send a request."""

        def arrive() -> None:
            if self._server.attachment is not None:
                self._server.attachment.execute(request, lambda outcome: self._answers.send(answered, outcome))

        self._requests.send(arrive)

    def authenticate(self, identity: Identity) -> None:
        """Add an identity of the client."""

        def arrive() -> None:
            if self._server.attachment is not None:
                self._server.attachment.authenticated(identity)

        self._requests.send(arrive)

    def ping(self, answered: Callable[[], None]) -> None:
        """Send a ping."""

        def arrive() -> None:
            if self._server.attachment is not None:
                self._server.attachment.heard()
                self._answers.send(answered)

        self._requests.send(arrive)

    def close_session(self, closed: Callable[[], None]) -> None:
        """Ask for the session's end."""

        def arrive() -> None:
            if self._server.attachment is not None:
                self._server.attachment.close(lambda: self._answers.send(closed))

        self._requests.send(arrive)

    def drop(self) -> None:
        """End the connection from the client's side, without a call of ``lost``."""
        self._requests.end()
        self._answers.end()
        if self._server.attachment is not None:
            self._server.attachment.detach()

    def lose(self) -> None:
        """End the connection from elsewhere."""
        if not self._answers.ended:
            self.drop()
            self._lost()


@implementer(IAttached)
class _ServerEnd:
    """The host's end of a connection."""

    def __init__(self, answers: _Pipe, notified: Callable[[WatchEvent], None], lose: Callable[[], None]) -> None:
        self.attachment: Attachment | None = None
        self._notified = notified
        self._answers = answers
        self._lose = lose

    def notified(self, zxid: int, event: WatchEvent) -> None:
        """See IAttached."""
        self._answers.send(self._notified, event)

    def cut(self, reason: CutReason) -> None:
        """See IAttached: earlier messages arrive before the end does."""
        self._answers.send(self._lose)


class _Pipe:
    """One direction of a connection: calls are made in the order of sending, each after its delay."""

    def __init__(self, link: HostLink, clock: Clock) -> None:
        self.ended = False
        self._clock = clock
        self._link = link
        self._under_way: deque[tuple[float, Callable[[], None]]] = deque()
        self._timer: Timer | None = None

    def send(self, call: Callable[..., None], *args: object) -> None:
        """Call ``call(*args)`` at the other end."""
        if self.ended:
            return
        arrival = self._clock.seconds() + self._link.delay()
        self._under_way.append((arrival, lambda: call(*args)))
        if self._timer is None:
            self._wait()

    def end(self) -> None:
        """Lose everything under way, and everything sent from now on."""
        self.ended = True
        self._under_way.clear()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _wait(self) -> None:
        delay = max(0.0, self._under_way[0][0] - self._clock.seconds())
        self._timer = self._clock.callLater(delay, self._arrive)

    def _arrive(self) -> None:
        self._timer = None
        # Messages behind the first cannot arrive before it. A message sent meanwhile takes a turn of its own. The
        # tolerance is for sums of floats.
        now = self._clock.seconds() + 1e-9
        try:
            for _ in range(len(self._under_way)):
                if not self._under_way or self._under_way[0][0] > now:
                    break
                self._under_way.popleft()[1]()
        finally:
            if self._under_way and self._timer is None:
                self._wait()
