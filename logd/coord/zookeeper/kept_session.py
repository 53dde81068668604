"""A session with the servers of a coordination tree that is kept: lost connections and sessions are replaced."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.coord.client_watches import ClientWatches, WatchKind
from logd.coord.errors import (
    AuthFailed,
    ClientClosing,
    ConnectionLoss,
    CoordinationError,
    NoAuth,
    NodeExists,
    OperationTimeout,
    SessionExpired,
)
from logd.coord.pending_calls import PendingCall, PendingCalls
from logd.coord.records import Create, Delete, EventType, Multi, SessionState, SetAcl, SetData, Sync
from logd.coord.zookeeper.farewell import Farewell
from logd.coord.zookeeper.heartbeat import Heartbeat
from logd.coord.zookeeper.kazoo_client import Identity, KazooSession
from logd.coord.zookeeper.reactor_queue import ThreadReactor
from logd.coord.zookeeper.session_events import GrantedSession, SessionCallbacks, SessionChange
from logd.coord.zookeeper.settings import FOR_EVER, CoordinationSettings
from logd.coord.zookeeper.unanswered import UnansweredWarning
from logd.interfaces import Timer

#: Seconds before kazoo's thread is started again after it ended by itself.
_BEGIN_AGAIN = 1.0
#: Seconds that the servers have to confirm the close of a session, and at most until ``close`` fires.
_FAREWELL, _FAREWELL_LIMIT = 2.0, 5.0


class KeptSession:
    """The life of a client between ``open`` and ``close``: its state, its listeners, its calls and watches."""

    _log = Logger()

    def __init__(
        self,
        reactor: ThreadReactor,
        settings: CoordinationSettings,
        make: Callable[
            [ThreadReactor, CoordinationSettings, SessionCallbacks, Identity | None], KazooSession
        ] = KazooSession,
    ) -> None:
        """``make`` creates a kazoo session, given the id and password of a session to resume."""
        self._make = make
        self.state = SessionState.SUSPENDED
        self.calls = PendingCalls(reactor, self._send, settings.in_flight, settings.waiting)
        self.watches = ClientWatches()
        self.heartbeat = Heartbeat(reactor, self._probe, self._silent)
        self._reactor = reactor
        self._settings = settings
        self._address = settings.address
        self._granted = GrantedSession(settings.session_timeout)
        self._kazoo: KazooSession | None = None
        self._listeners: dict[object, Callable[[SessionState], None]] = {}
        self._opening: Deferred[None] | None = None
        self._again: Timer | None = None
        self._unanswered = UnansweredWarning(reactor, settings.address.hosts, lambda: self.heartbeat.last)
        self._farewell = Farewell(reactor)

    @property
    def session_id(self) -> int:
        """The id of the session; 0 while there is none."""
        return self._granted.id

    @property
    def session_timeout(self) -> float:
        """The timeout agreed with the servers, in seconds; the one of the settings before there is a session."""
        return self._granted.timeout

    def open(self, limit: float) -> Deferred[None]:
        """Start; fires when there is a session and the chroot exists. Closes if that fails or takes too long."""
        if self._opening is not None:
            raise RuntimeError("connect is called once")
        opening = self._opening = Deferred()
        given_up = False

        def give_up(_: object = None) -> None:
            nonlocal given_up
            given_up = True
            self._end()

        def too_late() -> None:
            give_up()
            text = f"no session within {limit:g} s: no server of {self._address.hosts} answered"
            opened.errback(OperationTimeout(text))

        opened: Deferred[None] = Deferred(give_up)
        timer = None if limit == FOR_EVER else self._reactor.callLater(limit, too_late)

        def settle(result: object) -> None:
            if timer is not None and timer.active():
                timer.cancel()
            if isinstance(result, Failure):
                self._end()
            if not opened.called and not given_up:
                opened.callback(result)  # type: ignore[arg-type]

        opening.addCallback(lambda _: self._make_chroot()).addBoth(settle)
        self._unanswered.begin(self.session_timeout)
        self._begin()
        return opened

    def _make_chroot(self) -> Deferred[None]:
        async def make() -> None:
            chroot = self._address.chroot
            path = ""
            for name in chroot.split("/")[1:]:
                path = f"{path}/{name}"
                while True:
                    # Asked again for as long as connecting may take: in another session, if this one is over.
                    with suppress(ConnectionLoss, SessionExpired):
                        # Without the right to create it, requests inside the chroot will show whether it exists.
                        with suppress(NodeExists, NoAuth):
                            await self.calls.ask(Create(path, acl=self._settings.default_acl), chroot, None)
                        break

        return Deferred.fromCoroutine(make()) if self._address.chroot else succeed(None)

    def know(self, credentials: str) -> None:
        """Use these credentials, of scheme digest, in later sessions too."""
        if credentials not in self._settings.digests:
            self._settings = evolve(self._settings, digests=(*self._settings.digests, credentials))

    def subscribe(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        """As ICoordination's."""
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    def close(self) -> Deferred[None]:
        """As ICoordination's."""
        self._end()
        return self._farewell.wait()

    def _end(self) -> None:
        if self.state is SessionState.CLOSED:
            return
        self.state = SessionState.CLOSED
        kazoo, self._kazoo = self._kazoo, None
        self.heartbeat.end()
        self._unanswered.end()
        if self._again is not None and self._again.active():
            self._again.cancel()
        if kazoo is None:
            self._farewell.said()
        else:
            self._farewell.begin(_FAREWELL_LIMIT)
            kazoo.end(_FAREWELL, self._farewell.said)
        self.calls.fail_all(lambda path: ClientClosing(f"{path}: the client was closed", path))
        if self._opening is not None and not self._opening.called:
            self._opening.errback(ClientClosing("the client was closed before it was connected"))
        self.watches.fire_all(SessionState.CLOSED)
        self._notify_listeners(SessionState.CLOSED)

    # Called with events of kazoo's thread, on the reactor's thread.

    def _begin(self) -> None:
        events = SessionCallbacks(self._state_changed, self._fired, self._thread_ended)
        self._kazoo = self._make(self._reactor, self._settings, events, self._granted.identity)
        self._kazoo.start()

    def _begin_again(self) -> None:
        try:
            self._begin()
        except Exception as error:  # perhaps no thread or no file descriptor is left for a while
            self._kazoo = None
            self._log.warn("cannot connect to {hosts}: {error!r}", hosts=self._address.hosts, error=error)
            self._again = self._reactor.callLater(_BEGIN_AGAIN, self._begin_again)

    def _state_changed(self, change: SessionChange) -> None:
        if self.state is SessionState.CLOSED:
            return
        if change.state is SessionState.CONNECTED:
            if self.session_id not in (0, change.session_id):  # it ended while kazoo's thread was restarted
                lost = SessionChange(SessionState.LOST)
                self._state_changed(lost)
                if self.state is not lost.state:
                    return  # closed by one of the listeners
            self._connected(change)
        elif change.state is SessionState.SUSPENDED:
            self._suspended()
        else:
            self._over()
        if self.state is change.state:  # not closed by one of the listeners
            self._notify_listeners(change.state)

    def _connected(self, change: SessionChange) -> None:
        self.state = SessionState.CONNECTED
        timeout = change.session_timeout or self._settings.session_timeout
        self._granted = GrantedSession(timeout, change.session_id, change.password, change.connection)
        self._unanswered.answered()
        self.heartbeat.begin(change.sent, self.session_timeout)
        self.calls.flush()
        if self._opening is not None and not self._opening.called:
            self._opening.callback(None)

    def _suspended(self) -> None:
        self.state = SessionState.SUSPENDED
        self.heartbeat.end()
        self._unanswered.begin(self.session_timeout)
        self.watches.fire_all(SessionState.SUSPENDED)

    def _over(self) -> None:
        self.state = SessionState.LOST
        self._log.warn("session 0x{id:x} has expired; its ephemeral nodes are gone", id=self.session_id & (2**64 - 1))
        self._granted = evolve(self._granted, id=0, password=b"")
        self.heartbeat.end()
        self.calls.fail_all(lambda path: SessionExpired(path=path))
        self.watches.fire_all(SessionState.LOST)

    def _fired(self, kind: WatchKind, path: str, event: EventType) -> None:
        self.watches.fire(kind, self._address.ours(path), event)

    def _thread_ended(self, error: BaseException | None) -> None:
        """Restart kazoo, which gave up, as it does when answers make no sense or credentials are refused."""
        kazoo, self._kazoo = self._kazoo, None
        if self.state is SessionState.CLOSED or kazoo is None:
            return
        # Without a thread for it, its sockets are closed once nothing refers to it.
        with suppress(RuntimeError):
            kazoo.end(0.0, lambda: None)
        refused = error is None
        if refused and self._opening is not None and not self._opening.called:
            self._opening.errback(AuthFailed(f"{self._address.hosts}: the credentials were refused"))
            return
        self._log.warn(
            "the connection to {hosts} ended ({reason}); reconnecting in {seconds} s",
            hosts=self._address.hosts,
            reason="the credentials were refused" if refused else repr(error),
            seconds=_BEGIN_AGAIN,
        )
        self._again = self._reactor.callLater(_BEGIN_AGAIN, self._begin_again)
        self.calls.fail_all(lambda path: ConnectionLoss(path=path), sent_alone=True)
        if self.state is SessionState.CONNECTED:
            self._state_changed(SessionChange(SessionState.SUSPENDED))

    def _notify_listeners(self, state: SessionState) -> None:
        for listener in list(self._listeners.values()):
            try:
                listener(state)
            except Exception:
                self._log.failure("a listener for the session's state failed")

    def _probe(self) -> Deferred[object]:
        return self.calls.ask_at_once(Sync(self._address.full("/")), "/")

    def _silent(self) -> None:
        self._log.warn("{hosts}: the server is silent; closing its connection", hosts=self._address.hosts)
        if self._kazoo is not None:
            self._kazoo.cut()

    def _send(self, call: PendingCall) -> bool:
        if self.state is not SessionState.CONNECTED or self._kazoo is None:
            return False

        sent = self._reactor.seconds()

        def done(value: object, error: CoordinationError | None) -> None:
            # Only answers of the leader: see Heartbeat.
            if error is None and isinstance(call.request, Sync | Create | SetData | SetAcl | Delete | Multi):
                self.heartbeat.heard(sent)
            self.calls.answered(call, value, error)

        return self._kazoo.send(call.request, self._granted.connection, done)
