"""Serves one tree to many connections: sessions and their expiry; answers are held until what they show is flushed.

Requests are executed in memory at once, in the order of their arrival, and each change goes to the journal. Answers and
notifications wait in one queue until the journal has flushed the last change made before them, since they may show
that change; while nothing is unflushed, they are delivered before the call returns. So each connection gets its answers
and notifications in one order, a notification before any answer that shows its change, and no client ever sees what a
crash could take back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from hmac import compare_digest
from typing import Any, TypeVar

from attrs import field, frozen
from attrs.validators import gt

from logd.coord.records import Identity, Permission, Request
from logd.coord.tree.access import is_allowed
from logd.coord.tree.attachment import Attachment
from logd.coord.tree.interfaces import NO_CHANGE, CutReason, IAttached, IJournal
from logd.coord.tree.outcome import Outcome
from logd.coord.tree.sessions import SessionTracker, TreeSession
from logd.coord.tree.tree import Tree
from logd.interfaces import Clock, Timer

T = TypeVar("T")

#: The length of a session's password, as ZooKeeper's clients expect it.
PASSWORD_BYTES = 16


@frozen
class SessionLimits:
    """Limits on the sessions of a host. The defaults are ZooKeeper's, with its default tickTime of 2 s."""

    #: Timeouts outside these bounds, in milliseconds, are moved to the nearest bound.
    shortest_ms: int = field(default=4_000, validator=gt(0))
    longest_ms: int = field(default=40_000)
    #: Seconds between two checks for expired sessions.
    look: float = field(default=0.5, validator=gt(0))
    #: When more seconds than this pass between two checks, the process stood still, and the excess does not count.
    stood_still: float = field(default=1.0)

    def __attrs_post_init__(self) -> None:
        if self.longest_ms < self.shortest_ms:
            raise ValueError(f"the longest timeout, {self.longest_ms} ms, is below the shortest, {self.shortest_ms} ms")
        if self.stood_still < self.look:
            raise ValueError(
                f"stood_still, {self.stood_still} s, is below look, {self.look} s: no session would expire"
            )

    def granted(self, timeout_ms: int) -> int:
        """Return the timeout granted to a client that asks for ``timeout_ms``."""
        return min(max(timeout_ms, self.shortest_ms), self.longest_ms)


class TreeHost:
    """Serves one tree. For one thread, the clock's.

    ``random_bytes(count)`` makes the sessions' passwords. ``failed(error)`` is called if the journal fails: all
    connections have been cut by then, and nothing is served until ``resume``. ``wall()`` is the time of day, in seconds
    since the epoch, for the times of nodes; without it, the clock's seconds.
    """

    def __init__(
        self,
        tree: Tree,
        journal: IJournal,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        limits: SessionLimits = SessionLimits(),
        failed: Callable[[Exception], None] = lambda error: None,
        wall: Callable[[], float] | None = None,
    ) -> None:
        self._wall = clock.seconds if wall is None else wall
        self.tree = tree
        self.limits = limits
        #: False before ``start``, after ``stop`` and after the journal failed.
        self.serving = False
        self._journal = journal
        self._clock = clock
        self._random_bytes = random_bytes
        self._failed = failed
        self._flushed = tree.zxid
        #: The queue of answers and notifications: the last change shown; the recipient (None: without attachment); the
        #: callback, and its argument.
        self._queue: deque[tuple[int, Attachment | None, Callable[[Any], None], Any]] = deque()
        self._delivering = False
        self._afterwards: list[Callable[[], None]] = []
        self._attachments: dict[int, Attachment] = {}
        self._tracker = SessionTracker(clock.seconds(), limits.stood_still)
        self._expiry_timer: Timer | None = None

    @property
    def flushed(self) -> int:
        """The zxid of the last change that is on the disk: clients are shown what it and earlier ones have made."""
        return self._flushed

    # The host's own life

    def start(self) -> None:
        """Start serving: each session in the tree has its full timeout from now."""
        self.serving = True
        self._tracker = SessionTracker(self._clock.seconds(), self.limits.stood_still)
        for session in self.tree.sessions.values():
            self._track(session)
        self._journal.start(self._on_flushed, self._on_failed)
        self._expiry_timer = self._clock.callLater(self.limits.look, self._check_expiry)

    def resume(self, tree: Tree) -> None:
        """Resume after the journal failed, with the recovered tree, as after a new start."""
        self.tree = tree
        self._flushed = tree.zxid
        self.start()

    def stop(self) -> None:
        """Cut every connection. Sessions live on in the tree; answers to unflushed changes are not delivered."""
        self.serving = False
        if self._expiry_timer is not None and self._expiry_timer.active():
            self._expiry_timer.cancel()
        self._queue.clear()
        attachments, self._attachments = self._attachments, {}
        for session_id, attachment in attachments.items():
            self.tree.forget_watches(session_id)
            attachment.cut(CutReason.STOPPED)

    @property
    def connections(self) -> int:
        """The number of sessions that are attached to a connection."""
        return len(self._attachments)

    @property
    def held_back(self) -> int:
        """The number of answers and notifications that wait for the journal."""
        return len(self._queue)

    def afterwards(self, call: Callable[[], None]) -> None:
        """Call once everything deliverable was delivered: so a connection can write its output together."""
        if self._delivering:
            self._afterwards.append(call)
        else:
            call()

    # Called by connections

    def open_session(
        self,
        listener: IAttached,
        timeout_ms: int,
        identities: tuple[Identity, ...],
        opened: Callable[[Attachment], None],
    ) -> Attachment | None:
        """Open a session for a connection; ``opened(attachment)`` once it is flushed, perhaps before this returns.

        Returns the same attachment, for a connection that is lost meanwhile. When the host does not serve, the listener
        is cut at once, and None is returned.
        """
        if not self.serving:
            listener.cut(CutReason.STOPPED)
            return None
        password = self._random_bytes(PASSWORD_BYTES)
        outcome = self.tree.open_session(self.limits.granted(timeout_ms), password, self._now_ms())
        session = self.tree.sessions[outcome.zxid]
        self._track(session)
        attachment = Attachment(self, session, listener, identities, is_first=True)
        self._attachments[session.id] = attachment
        self._committed(outcome)
        self._enqueue(attachment, opened, attachment)
        return attachment

    def attach(
        self,
        listener: IAttached,
        session_id: int,
        password: bytes,
        identities: tuple[Identity, ...],
        attached: Callable[[Attachment | None], None],
    ) -> Attachment | None:
        """Attach a connection to a session that is open.

        Calls ``attached(attachment)``, perhaps before this returns, or ``attached(None)`` when no session has that id
        and password (any more). Another connection attached to the session is cut (MOVED). Watches are not carried
        over. When the host does not serve, the listener is cut at once. Returns the attachment too.
        """
        if not self.serving:
            listener.cut(CutReason.STOPPED)
            return None
        session = self.tree.sessions.get(session_id)
        if session is None or not compare_digest(session.password, password):
            # The end of the session is reported only once it is durable.
            self._queue.append((self.tree.zxid, None, attached, None))
            self._deliver_flushed()
            return None
        self._let_go(session_id, CutReason.MOVED)
        attachment = Attachment(self, session, listener, identities, is_first=False)
        self._attachments[session_id] = attachment
        self.heard(session_id)
        self._enqueue(attachment, attached, attachment)
        return attachment

    def expire(self, session_id: int) -> None:
        """End a session whose client is silent (or that an operator ends); its connection is cut."""
        self._committed(self.tree.close_session(session_id, self._now_ms()))
        self._tracker.remove(session_id)
        self._let_go(session_id, CutReason.EXPIRED)

    # Called by Attachment

    def execute(self, attachment: Attachment, request: Request, answered: Callable[[Outcome], None]) -> None:
        """See Attachment."""
        session_id = attachment.session.id
        self.heard(session_id)
        outcome = self.tree.execute(session_id, attachment.identities, request, self._now_ms())
        if outcome.change is not None or outcome.notifications:
            self._committed(outcome)
        self._enqueue(attachment, answered, outcome)

    def heard(self, session_id: int) -> None:
        """See Attachment."""
        self._tracker.heard(session_id, self._clock.seconds())

    def close(self, attachment: Attachment, closed: Callable[[], None]) -> None:
        """See Attachment."""
        self._committed(self.tree.close_session(attachment.session.id, self._now_ms()))
        self._tracker.remove(attachment.session.id)

        def tell(_: None) -> None:
            attachment.attached = False
            if self._attachments.get(attachment.session.id) is attachment:
                del self._attachments[attachment.session.id]
            closed()

        self._enqueue(attachment, tell, None)

    def detach(self, attachment: Attachment) -> None:
        """See Attachment."""
        attachment.attached = False
        if self._attachments.get(attachment.session.id) is attachment:
            del self._attachments[attachment.session.id]
            self.tree.forget_watches(attachment.session.id)

    # The queue of answers and notifications

    def _committed(self, outcome: Outcome) -> None:
        """Journal the change of a request, and queue its notifications."""
        event_zxid = NO_CHANGE if outcome.change is None else outcome.zxid
        for session_id, event, acl in outcome.notifications:
            attachment = self._attachments.get(session_id)
            if attachment is not None and is_allowed(acl, Permission.READ, attachment.identities):
                self._queue.append((outcome.zxid, attachment, partial(attachment.notified, event_zxid), event))
        if outcome.change is not None:
            self._journal.append(outcome.change)

    def _enqueue(self, attachment: Attachment, deliver: Callable[[T], None], value: T) -> None:
        self._queue.append((self.tree.zxid, attachment, deliver, value))
        if self._queue[0][0] <= self._flushed:
            self._deliver_flushed()

    def _deliver_flushed(self) -> None:
        # A recipient may send another request at once: its answer goes to the end of the queue.
        if self._delivering:
            return
        self._delivering = True
        raised: Exception | None = None
        try:
            while self._queue and self._queue[0][0] <= self._flushed:
                _, attachment, deliver, value = self._queue.popleft()
                if attachment is None or attachment.attached:
                    try:
                        deliver(value)
                    except Exception as error:  # a bug in that listener; the others are called first
                        raised = raised or error
        finally:
            self._delivering = False
            if self._afterwards:
                afterwards, self._afterwards = self._afterwards, []
                for call in afterwards:
                    call()
        if raised is not None:
            raise raised

    def _on_flushed(self, zxid: int) -> None:
        self._flushed = zxid
        if self.serving:
            self._deliver_flushed()

    def _on_failed(self, error: Exception) -> None:
        if self.serving:
            self.stop()
            self._failed(error)

    # Sessions

    def _track(self, session: TreeSession) -> None:
        self._tracker.add(session.id, session.timeout_ms / 1000, self._clock.seconds())

    def _let_go(self, session_id: int, reason: CutReason) -> None:
        attachment = self._attachments.pop(session_id, None)
        if attachment is not None:
            self.tree.forget_watches(session_id)
            attachment.cut(reason)

    def _check_expiry(self) -> None:
        for _, attachment, _, value in self._queue:
            if attachment is not None and value is attachment:
                # Its client waits for the journal, and can send no pings before it is told of its session.
                self.heard(attachment.session.id)
        due = self._tracker.due(self._clock.seconds())
        if due:
            # The reactor reads its sockets before the next turn's timers: input from clients counts first.
            self._expiry_timer = self._clock.callLater(0, self._expire_due, due)
        else:
            self._expiry_timer = self._clock.callLater(self.limits.look, self._check_expiry)

    def _expire_due(self, before: list[int]) -> None:
        still = set(self._tracker.due(self._clock.seconds()))
        for session_id in before:
            if session_id in still and self.serving:
                self.expire(session_id)
        if self.serving:
            self._expiry_timer = self._clock.callLater(self.limits.look, self._check_expiry)

    def _now_ms(self) -> int:
        return int(self._wall() * 1000)
