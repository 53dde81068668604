"""kazoo under Twisted: one kazoo client, with its thread kept away from our logic. The only module that uses kazoo.

kazoo runs one thread for its connection. Its answers, watch events and state changes are handed to the reactor through
one queue in the order in which they happened, so that new data never overtake the watch event that reports them. Only
kazoo's public interfaces are used: its ``*_async`` calls and a handler of our own.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from attrs import frozen
from kazoo.client import KazooClient as Client
from kazoo.exceptions import ConnectionClosedError, RolledBackError, ZookeeperError
from kazoo.exceptions import RuntimeInconsistency as NotTried
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState, KeeperState, WatchedEvent
from kazoo.retry import KazooRetry
from kazoo.security import ACL, Id

from logd.coord import errors
from logd.coord.client_watches import WatchKind
from logd.coord.records import (
    Acl,
    AddAuth,
    Check,
    ClientCall,
    Create,
    Delete,
    EventType,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    Operation,
    SessionState,
    SetAcl,
    SetData,
    Stat,
    Sync,
)
from logd.coord.zookeeper.agreed_timeout import OverheardSocket
from logd.coord.zookeeper.reactor_queue import ReactorQueue, ThreadReactor
from logd.coord.zookeeper.session_events import SessionCallbacks, SessionChange
from logd.coord.zookeeper.settings import CoordinationSettings
from logd.coord.zookeeper.wakeup import Wakeup, WakeupReader, WakeupWriter

#: kazoo's own messages; set up this logger to see them. Important events are logged by the client above it.
_log = logging.getLogger("logd.coord.kazoo")
_log.addHandler(logging.NullHandler())

#: A session's id and password.
Identity = tuple[int, bytes]

_EVENTS = {
    "CREATED": EventType.CREATED,
    "DELETED": EventType.DELETED,
    "CHANGED": EventType.CHANGED,
    "CHILD": EventType.CHILDREN,
}

#: Seconds between two rounds through all servers: at first, and at most.
_FIRST_DELAY, _LONGEST_DELAY = 0.1, 1.0


@frozen
class Watcher:
    """The single callback that kazoo sees for a kind and path, however often that is watched: equal ones are one."""

    kind: WatchKind
    path: str
    client: KazooSession

    def __call__(self, event: WatchedEvent) -> None:
        kind = _EVENTS.get(event.type)
        if kind is not None:  # None: the connection was lost, which the session's state reports
            self.client.events.fired(self.kind, self.path, kind)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's interface to an event loop: no thread except the connection's."""

    def __init__(self, session: KazooSession, reactor: ThreadReactor) -> None:
        super().__init__()
        self.to_reactor = self.callback_queue = self.completion_queue = ReactorQueue(reactor)
        #: Linked to the next result that is created.
        self.link: Callable[[Any], None] | None = None
        self._session = session
        self._reactor = reactor
        self.socket_now: OverheardSocket | None = None
        #: No new connection is made, and an existing one may be cut.
        self.stopping = False
        self.cut_for_good = False

    @property
    def running(self) -> bool:
        # Always true: completions of a handler that is not running would be called on kazoo's thread.
        return True

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def dispatch_callback(self, callback: Any) -> None:
        self.callback_queue.put(lambda: callback.func(*callback.args))

    def async_result(self) -> Any:
        result = super().async_result()
        link, self.link = self.link, None
        if link is not None:
            result.rawlink(link)
        return result

    def create_socket_pair(self) -> tuple[WakeupReader, WakeupWriter]:
        wakeup = Wakeup()
        return wakeup.waiting, wakeup.waker

    def create_connection(self, *args: Any, **options: Any) -> OverheardSocket:
        if self.stopping:
            raise ConnectionRefusedError("the client is being closed")
        opened = self._reactor.seconds()
        # Otherwise a server that accepts no connections could use up the whole session timeout.
        options["timeout"] = min(options["timeout"], self._session.settings.session_timeout / 3)
        made = OverheardSocket(super().create_connection(*args, **options), opened)
        self.socket_now = made
        if self.cut_for_good:
            self.cut()
        return made

    def cut(self) -> None:
        """Cut the connection, from any thread: a reader or writer then finds it closed."""
        if self.socket_now is not None:
            with suppress(OSError):  # it is closed already
                self.socket_now.shutdown(socket.SHUT_RDWR)

    def spawn(self, func: Callable[..., None], *args: Any, **options: Any) -> threading.Thread:
        def run() -> None:
            error: BaseException | None = None
            try:
                func(*args, **options)
            except BaseException as raised:  # reported to the owner, which starts again
                error = raised
            if not self.stopping:
                self._reactor.callFromThread(self._session.events.ended, error)

        thread = threading.Thread(target=run, name="logd-zookeeper", daemon=True)
        thread.start()
        return thread


class KazooSession:
    """One kazoo client from its start to its end. Makes no thread before ``start``; for the reactor's thread."""

    def __init__(
        self,
        reactor: ThreadReactor,
        settings: CoordinationSettings,
        events: SessionCallbacks,
        identity: Identity | None = None,
    ) -> None:
        self.settings = settings
        self.events = events
        self._reactor = reactor
        self._address = settings.address
        self._handler = _Handler(self, reactor)
        #: Guards the two below: kazoo's thread closes the gate before it reports a lost connection, so that no request
        #: for one connection is sent on a later one.
        self._gate = threading.Lock()
        self._open = False
        self._connection = 0
        tls = settings.tls
        self._client = Client(
            hosts=settings.address.hosts,
            timeout=settings.session_timeout,
            client_id=identity,
            handler=self._handler,
            auth_data=[("digest", each) for each in settings.digests],
            connection_retry=KazooRetry(
                max_tries=-1, delay=_FIRST_DELAY, max_delay=_LONGEST_DELAY, sleep_func=self._handler.sleep_func
            ),
            logger=_log,
            use_ssl=tls is not None,
            ca=tls and tls.authorities,
            certfile=tls and tls.certificate,
            keyfile=tls and tls.key,
            keyfile_password=tls and tls.key_password,
            verify_certs=tls is None or tls.verify,
            check_hostname=tls is not None and tls.check_hostname,
        )
        self._client.add_listener(self._changed)

    def start(self) -> None:
        """Start to connect, and stay connected."""
        self._client.start_async()

    def cut(self) -> None:
        """Give up the current connection; another one is made."""
        self._handler.cut()

    def end(self, patience: float, done: Callable[[], None]) -> None:
        """Close the session; call ``done()`` then, or soon after ``patience`` seconds without an answer."""
        self._handler.stopping = True

        def hurry() -> None:
            self._handler.cut_for_good = True
            self._handler.cut()

        def told() -> None:
            closing.join()  # the thread has nothing left to do
            if timer.active():
                timer.cancel()
            done()

        def run() -> None:
            try:
                self._client.stop()
                self._client.close()
            except Exception as error:
                # kazoo's thread still waits for a connection to be made; it ends by itself after that.
                _log.info("closing: %s", error)
            self._reactor.callFromThread(told)

        timer = self._reactor.callLater(patience, hurry)
        closing = threading.Thread(target=run, name="logd-zookeeper-close", daemon=True)
        closing.start()

    def send(
        self, request: ClientCall, connection: int, done: Callable[[object, errors.CoordinationError | None], None]
    ) -> bool:
        """Send on the connection of that number; return whether it still existed.

        ``done(value, error)`` follows, never before this has returned.
        """
        with self._gate, self._handler.to_reactor.later():
            if not self._open or self._connection != connection:
                return False
            # Linked before sending: kazoo's thread may have the answer, and a watch event behind it, before its call
            # has returned to us.
            self._handler.link = lambda result: done(*self._outcome(request, result))
            try:
                self._issue(request)
            except (TypeError, ValueError) as error:
                text = f"{getattr(request, 'path', '/')}: {error}"
                self._reactor.callFromThread(done, None, errors.BadArguments(text))
            finally:
                self._handler.link = None
        return True

    def _issue(self, request: ClientCall) -> Any:
        client = self._client
        match request:
            case GetData(path, watch):
                return client.get_async(path, self._watcher(WatchKind.DATA, path) if watch else None)
            case Exists(path, watch):
                return client.exists_async(path, self._watcher(WatchKind.DATA, path) if watch else None)
            case GetChildren(path, watch):
                return client.get_children_async(path, self._watcher(WatchKind.CHILDREN, path) if watch else None)
            case Create(path, data, acl, ephemeral, sequence):
                return client.create_async(path, data, acl=_acl(acl), ephemeral=ephemeral, sequence=sequence)
            case SetData(path, data, version):
                return client.set_async(path, data, version)
            case Delete(path, version):
                return client.delete_async(path, version)
            case Sync(path):
                return client.sync_async(path)
            case AddAuth(credentials):
                return client.add_auth_async("digest", credentials)
            case GetAcl(path):
                return client.get_acls_async(path)
            case SetAcl(path, acl, version):
                return client.set_acls_async(path, _acl(acl), version)
            case Multi(operations):
                transaction = client.transaction()
                for each in operations:
                    match each:
                        case Create(path, data, acl, ephemeral, sequence):
                            transaction.create(path, data, _acl(acl), ephemeral, sequence)
                        case SetData(path, data, version):
                            transaction.set_data(path, data, version)
                        case Delete(path, version):
                            transaction.delete(path, version)
                        case Check(path, version):
                            transaction.check(path, version)
                return transaction.commit_async()
        raise TypeError(f"{request!r} is no request of this client")

    def _watcher(self, kind: WatchKind, path: str) -> Watcher:
        return Watcher(kind, path, self)

    def _changed(self, state: str) -> None:
        """Report a change of kazoo's state, on kazoo's thread."""
        with self._gate:
            self._open = state == KazooState.CONNECTED
            if self._open:
                self._connection += 1
        if state == KazooState.SUSPENDED:
            change = SessionChange(SessionState.SUSPENDED)
        elif state == KazooState.CONNECTED:
            heard = self._handler.socket_now
            session_id, password = self._client.client_id
            timeout = heard.session_timeout if heard is not None else 0.0
            sent = heard.opened if heard is not None else 0.0
            change = SessionChange(SessionState.CONNECTED, self._connection, session_id, password, timeout, sent)
        elif self._client.client_state == KeeperState.EXPIRED_SESSION:
            change = SessionChange(SessionState.LOST)
        else:
            return  # closed by us, or the thread is ending: reported then
        self._reactor.callFromThread(self.events.state, change)

    def _outcome(self, request: ClientCall, result: Any) -> tuple[object, errors.CoordinationError | None]:
        """Return the value or error that an answer of kazoo's stands for."""
        path: str = getattr(request, "path", "/")
        try:
            value = result.get_nowait()
        except ZookeeperError as error:
            return None, self._translated(error, path)
        except Exception as error:
            # An answer to another request, or an unreadable one: kazoo gives the connection up.
            return None, errors.ConnectionLoss(f"{path}: the answer made no sense: {error}", path)
        match request:
            case GetData():
                data, stat = value
                return (data or b"", Stat(*stat)), None
            case Exists():
                return (None if value is None else Stat(*value)), None
            case SetData() | SetAcl():
                return Stat(*value), None
            case GetAcl():
                rows, stat = value
                return (tuple(Acl(row.perms, row.id.scheme, row.id.id) for row in rows), Stat(*stat)), None
            case GetChildren():
                return sorted(value), None
            case Create():
                return self._address.ours(value), None
            case Multi(operations):
                return self._multi_outcome(operations, value)
        return None, None

    def _multi_outcome(
        self, operations: tuple[Operation, ...], results: list[Any]
    ) -> tuple[object, errors.CoordinationError | None]:
        values: list[object] = []
        for operation, result in zip(operations, results, strict=False):
            if isinstance(result, ZookeeperError):
                if not isinstance(result, RolledBackError | NotTried):
                    return None, self._translated(result, operation.path)
            elif isinstance(operation, SetData):
                values.append(Stat(*result))
            else:
                values.append(self._address.ours(result) if isinstance(operation, Create) else None)
        return values, None

    def _translated(self, error: ZookeeperError, path: str) -> errors.CoordinationError:
        path = self._address.ours(path)
        if isinstance(error, ConnectionClosedError):  # it has the code of an expired session
            return errors.ConnectionLoss(path=path)
        return errors.error_for_code(error.code, path)


def _acl(rows: tuple[Acl, ...]) -> list[Any]:
    return [ACL(int(row.permissions), Id(row.scheme, row.identity)) for row in rows]
