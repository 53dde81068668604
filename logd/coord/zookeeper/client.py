"""The coordination tree of a real ZooKeeper, or of any server that speaks its protocol, as an ICoordination.

The interface is modelled on txzookeeper, with PEP 8 names and a timeout for every call::

    ZookeeperClient.connect             connect                   get_and_watch           get_and_watch
    ZookeeperClient.create(flags)       create(ephemeral, ...)    exists_and_watch        exists_and_watch
    ZookeeperClient.set_session_callback    subscribe             get_children_and_watch  get_children_and_watch
    ZookeeperClient.client_id           session_id                close                   close

ZooKeeper's sessions map to states as follows:

- **The connection is lost**: SUSPENDED. Sent requests fail with ConnectionLoss, watches fire with EventType.SESSION,
  and further calls wait in this client for the next connection: one that times out or is cancelled before that is
  never sent.
- **The session is over**: LOST, only when a server says so. All waiting calls fail with SessionExpired, since they
  were meant for the former session; a new session is asked for.
- **No server answers**: SUSPENDED for as long as that lasts, and a warning once it lasts longer than the session
  timeout. Only a server can say that a session is over: servers that come back after an hour give it a full timeout
  again, and its ephemeral nodes still exist. Callers that must act earlier look at ``last_contact``.
- **last_contact** is the time when the latest answered change or ``sync`` was *sent*: never later than the time from
  which the server counts. A timer of our own sends a ``sync`` each sixth of the session timeout (``heartbeat``), so
  that normally it is at most that and one round trip old. Reads do not count: a follower that is cut off from its
  leader still answers them. What remains is the delay until a follower reports its contacts to its leader: up to
  half of ZooKeeper's tickTime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from attrs import evolve
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from logd.coord.client_watches import WatchKind
from logd.coord.errors import BadArguments, ClientClosing, CoordinationError, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import (
    ANY_VERSION,
    OPEN_ACL,
    Acl,
    AddAuth,
    ClientCall,
    Create,
    Delete,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    Operation,
    Request,
    SessionState,
    SetAcl,
    SetData,
    Stat,
    Sync,
    WatchEvent,
)
from logd.coord.tree.pathnames import check_path, parent_of
from logd.coord.zookeeper.kept_session import KeptSession
from logd.coord.zookeeper.reactor_queue import ThreadReactor
from logd.coord.zookeeper.settings import CoordinationSettings

#: Bytes of one transaction. Servers drop connections for requests of 1 MiB (their ``jute.maxbuffer``).
MOST_TRANSACTION_BYTES = (1 << 20) - 1024
#: The header of an operation, which ends the list too; a length, as before a text; a version, flags or permissions.
_HEADER_BYTES, _LENGTH_BYTES, _NUMBER_BYTES = 9, 4, 4


def bytes_of(operations: Sequence[Operation]) -> int:
    """Return the bytes of a transaction of these operations."""
    size = _HEADER_BYTES
    for each in operations:
        size += _HEADER_BYTES + _LENGTH_BYTES + len(each.path.encode()) + _NUMBER_BYTES
        if isinstance(each, Create | SetData):
            size += _LENGTH_BYTES + len(each.data)
        if isinstance(each, Create):
            rows = [f"{row.scheme}{row.identity}".encode() for row in each.acl]
            size += _LENGTH_BYTES + sum(_NUMBER_BYTES + 2 * _LENGTH_BYTES + len(row) for row in rows)
    return size


@implementer(ICoordination)
class ZooKeeperCoordination:
    """A client of the servers in ``settings`` (a CoordinationSettings, or its ``hosts`` alone).

    Makes no thread before ``connect``, so that it can be made before a process forks. Raises ConfigurationError for
    settings that are not allowed.
    """

    def __init__(self, reactor: ThreadReactor, settings: CoordinationSettings | str) -> None:
        self.settings = CoordinationSettings(hosts=settings) if isinstance(settings, str) else settings
        self._reactor = reactor
        #: See ICoordination.
        self.access_lists = self.settings.access_lists()
        self._address = self.settings.address
        self._session = KeptSession(reactor, self.settings)

    @property
    def state(self) -> SessionState:
        return self._session.state

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def session_timeout(self) -> float:
        return self._session.session_timeout

    @property
    def last_contact(self) -> float:
        return self._session.heartbeat.last

    def connect(self, timeout: float | None = None) -> Deferred[ICoordination]:
        if self.state is SessionState.CLOSED:
            return fail(ClientClosing("the client was closed: make another"))
        if self.state is SessionState.CONNECTED:
            return succeed(cast(ICoordination, self))
        opened = self._session.open(self.settings.connect_timeout if timeout is None else timeout)
        return opened.addCallback(lambda _: self)

    def subscribe(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        return self._session.subscribe(listener)

    def close(self) -> Deferred[None]:
        return self._session.close()

    def get(self, path: str, timeout: float | None = None) -> Deferred[tuple[bytes, Stat]]:
        return self._read(GetData, path, timeout)[0]

    def get_and_watch(
        self, path: str, timeout: float | None = None
    ) -> tuple[Deferred[tuple[bytes, Stat]], Deferred[WatchEvent]]:
        return self._read(GetData, path, timeout, WatchKind.DATA)

    def exists(self, path: str, timeout: float | None = None) -> Deferred[Stat | None]:
        return self._read(Exists, path, timeout)[0]

    def exists_and_watch(
        self, path: str, timeout: float | None = None
    ) -> tuple[Deferred[Stat | None], Deferred[WatchEvent]]:
        return self._read(Exists, path, timeout, WatchKind.DATA)

    def get_children(self, path: str, timeout: float | None = None) -> Deferred[list[str]]:
        return self._read(GetChildren, path, timeout)[0]

    def get_children_and_watch(
        self, path: str, timeout: float | None = None
    ) -> tuple[Deferred[list[str]], Deferred[WatchEvent]]:
        return self._read(GetChildren, path, timeout, WatchKind.CHILDREN)

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        acl: Sequence[Acl] = OPEN_ACL,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        timeout: float | None = None,
    ) -> Deferred[str]:
        operation = Create(path, data, tuple(acl), ephemeral, sequence)
        if not makepath:
            return self._write(operation, timeout)
        until = self._reactor.seconds() + self._limit(timeout)
        return Deferred.fromCoroutine(self._create_with_parents(operation, until))

    async def _create_with_parents(self, operation: Create, until: float) -> str:
        while True:
            try:
                made: str = await self._write(operation, max(until - self._reactor.seconds(), 0.0))
                return made
            except NoNode:
                parent = parent_of(operation.path.rstrip("/"))
                if parent == "/":
                    raise
            with suppress(NodeExists):  # another client created it meanwhile
                await self._create_with_parents(Create(parent, b"", operation.acl), until)

    def set(self, path: str, data: bytes, version: int = ANY_VERSION, timeout: float | None = None) -> Deferred[Stat]:
        return self._write(SetData(path, data, version), timeout)

    def delete(self, path: str, version: int = ANY_VERSION, timeout: float | None = None) -> Deferred[None]:
        return self._write(Delete(path, version), timeout)

    def get_acl(self, path: str, timeout: float | None = None) -> Deferred[tuple[tuple[Acl, ...], Stat]]:
        return self._read(lambda full, _: GetAcl(full), path, timeout)[0]

    def set_acl(
        self, path: str, acl: Sequence[Acl], version: int = ANY_VERSION, timeout: float | None = None
    ) -> Deferred[Stat]:
        return self._read(lambda full, _: SetAcl(full, tuple(acl), version), path, timeout)[0]

    def multi(self, operations: Sequence[Operation], timeout: float | None = None) -> Deferred[list[str | Stat | None]]:
        path = operations[0].path if operations else "/"
        try:
            request = Multi(tuple(map(self._on_the_server, operations)))
            self._demand_room(request, path)
        except CoordinationError as error:
            return fail(error)
        return self._ask(request, path, timeout)

    def sync(self, path: str = "/", timeout: float | None = None) -> Deferred[None]:
        return self._read(lambda full, _: Sync(full), path, timeout)[0]

    def authenticate(self, user: str, password: str, timeout: float | None = None) -> Deferred[None]:
        credentials = f"{user}:{password}"
        self._session.know(credentials)
        return self._ask(AddAuth(credentials), "/", timeout)

    def _read(
        self, make: Callable[[str, bool], Request], path: str, timeout: float | None, kind: WatchKind | None = None
    ) -> tuple[Deferred[Any], Deferred[WatchEvent]]:
        watches = self._session.watches
        watch = watches.make(kind or WatchKind.DATA, path)
        try:
            request = make(self._address.full(check_path(path)), kind is not None)
        except BadArguments as error:
            return fail(error), watch
        if kind is None:
            return self._ask(request, path, timeout), watch
        return self._ask(request, path, timeout, lambda _: watches.leave(kind, path, watch)), watch

    def _write(self, operation: Operation, timeout: float | None) -> Deferred[Any]:
        try:
            request = self._on_the_server(operation)
        except CoordinationError as error:
            return fail(error)
        return self._ask(request, operation.path, timeout)

    def _on_the_server(self, operation: Operation) -> Operation:
        """Return the operation with the server's path; raise BadArguments if the server would have to refuse it."""
        path = operation.path
        # A sequence node may have no name but its number.
        check_path(f"{path}0" if isinstance(operation, Create) and operation.sequence else path)
        if isinstance(operation, Create | SetData) and len(operation.data) > self.settings.data_bytes:
            raise BadArguments(
                f"{path}: {len(operation.data)} bytes are more than data_bytes, {self.settings.data_bytes}", path
            )
        if isinstance(operation, Create) and operation.acl is OPEN_ACL:  # the caller gave none
            operation = evolve(operation, acl=self.access_lists.of(path))
        return evolve(operation, path=self._address.full(path))

    def _demand_room(self, request: Multi, path: str) -> None:
        """Raise BadArguments for a transaction so large that a server would end the connection for it."""
        size, most = bytes_of(request.operations), max(MOST_TRANSACTION_BYTES, self.settings.data_bytes)
        if size > most:
            text = f"{path}: {len(request.operations)} operations take {size:,} bytes, more than {most:,}"
            raise BadArguments(f"{text}, which servers take as one transaction", path)

    def _ask(
        self, request: ClientCall, path: str, timeout: float | None, before: Callable[[object], None] | None = None
    ) -> Deferred[Any]:
        if self.state is SessionState.CLOSED:
            return fail(ClientClosing(f"{path}: the client was closed", path))
        return self._session.calls.ask(request, path, self._limit(timeout), before)

    def _limit(self, timeout: float | None) -> float:
        return self.settings.operation_timeout if timeout is None else timeout
