"""A client of a tree hosted in the same process, for tests and simulations, on any clock."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from attrs import evolve
from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger
from zope.interface import implementer

from logd.coord.access_lists import AccessLists
from logd.coord.client_watches import ClientWatches, WatchKind
from logd.coord.errors import (
    ClientClosing,
    ConnectionLoss,
    CoordinationError,
    NodeExists,
    NoNode,
    OperationTimeout,
    SessionExpired,
)
from logd.coord.interfaces import ICoordination
from logd.coord.pending_calls import PendingCall, PendingCalls
from logd.coord.records import (
    ANY_VERSION,
    OPEN_ACL,
    Acl,
    AddAuth,
    Children,
    Create,
    Created,
    Delete,
    EventType,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Identity,
    Multi,
    NodeData,
    Operation,
    Request,
    SessionState,
    SetAcl,
    SetData,
    SetWatches,
    Stat,
    Sync,
    WatchEvent,
)
from logd.coord.tree.access import digest_identity
from logd.coord.tree.outcome import MultiFailed, OperationResult, Outcome
from logd.coord.tree.pathnames import check_path, parent_of
from logd.coord.tree.tree_host import TreeHost
from logd.deferreds.waiting import WaitingDeferreds
from logd.interfaces import Clock
from logd.testing.inprocess.attaching import SessionKeeper
from logd.testing.inprocess.link import HostLink, LinkConnection

T = TypeVar("T")
AnyOperation = TypeVar("AnyOperation", bound=Operation)
_log = Logger()


@implementer(ICoordination)
class InProcessCoordination:
    """See ICoordination. A simulation uses ``link`` to delay and cut messages, and to replace the host.

    ``session_timeout`` is in seconds, within the host's limits. ``timeout`` is the default timeout of calls.
    ``reconnect``: seconds between two attempts to reach the host. ``last_contact`` is the time when the latest answered
    request was *sent*, so that the session cannot expire before ``last_contact + session_timeout``.
    """

    def __init__(
        self,
        host: TreeHost | None,
        clock: Clock,
        session_timeout: float = 10.0,
        timeout: float = 10.0,
        *,
        reconnect: float = 0.1,
        delay: Callable[[], float] = lambda: 0.0,
        identities: Sequence[Identity] = (),
    ) -> None:
        self.link = HostLink(host, clock, delay)
        self.access_lists = AccessLists(tuple(each.id for each in identities if each.scheme == "digest"))
        self._clock = clock
        self._timeout = timeout
        self._listeners: list[Callable[[SessionState], None]] = []
        self._connecting: list[Deferred[Any]] = []
        self._closing: WaitingDeferreds[None] = WaitingDeferreds()
        self._started = self._ended = False
        self._watches = ClientWatches()
        self._session = SessionKeeper(
            self.link, clock, session_timeout, reconnect, tuple(identities), self._changed, self._fired
        )
        #: Set once the listeners know of the connection: waiting calls are sent first.
        self._connection: LinkConnection | None = None
        self._calls = PendingCalls(clock, self._send, limit=sys.maxsize, room=sys.maxsize)

    @property
    def state(self) -> SessionState:
        """See ICoordination."""
        return self._session.state

    @property
    def session_id(self) -> int:
        """See ICoordination."""
        return self._session.session_id

    @property
    def session_timeout(self) -> float:
        """See ICoordination."""
        return self._session.timeout

    @property
    def last_contact(self) -> float:
        """See ICoordination."""
        return self._session.last_contact

    # The session

    def connect(self, timeout: float | None = None) -> Deferred[ICoordination]:
        """See ICoordination."""
        if self.state is SessionState.CLOSED:
            return fail(ClientClosing("the client was closed: make another one"))
        if self.state is SessionState.CONNECTED:
            return succeed(cast(ICoordination, self))
        connected: Deferred[Any] = Deferred(self._stop_connecting)
        seconds = self._seconds(timeout)
        timer = self._clock.callLater(seconds, self._give_up, connected, seconds)

        def over(result: Any) -> Any:
            if timer.active():
                timer.cancel()
            if connected in self._connecting:
                self._connecting.remove(connected)
            return result

        self._connecting.append(connected.addBoth(over))
        if not self._started:
            self._started = True
            self._session.start()
        return connected

    def _stop_connecting(self, connected: Deferred[Any]) -> None:
        self._connecting.remove(connected)
        self.close()

    def _give_up(self, connected: Deferred[Any], seconds: float) -> None:
        self._stop_connecting(connected)
        connected.errback(OperationTimeout(f"no session could be opened within {seconds:g} s"))

    def subscribe(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        """See ICoordination."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    def close(self) -> Deferred[None]:
        """See ICoordination."""
        if self._ended:
            return succeed(None)
        done = self._closing.new()
        if self.state is not SessionState.CLOSED:
            self._session.close(self._timeout, self._end)
        return done

    def _end(self) -> None:
        self._ended = True
        self._closing.fire(None)

    def _changed(self, state: SessionState) -> None:
        self._connection = None
        if state is SessionState.SUSPENDED:
            self._calls.fail_all(lambda path: ConnectionLoss(path=path), sent_alone=True)
        elif state is SessionState.LOST:
            self._calls.fail_all(lambda path: SessionExpired(path=path))
        elif state is SessionState.CLOSED:
            self._calls.fail_all(lambda path: ClientClosing(path=path))
        for listener in self._listeners[:]:
            try:
                listener(state)
            except Exception:
                _log.failure("a listener to the session's state failed")
        if self.state is not state:
            return  # a listener has closed the client
        if state is SessionState.CONNECTED:
            self._connection = self._session.connection
            self._calls.flush()
            for each in self._connecting[:]:
                each.callback(self)
        elif state in (SessionState.SUSPENDED, SessionState.CLOSED):
            self._watches.fire_all(state)
        if state is SessionState.CLOSED:
            for each in self._connecting[:]:
                each.errback(ClientClosing())

    def _send(self, call: PendingCall) -> bool:
        if self._connection is None:
            return False
        assert not isinstance(call.request, AddAuth)
        self._connection.execute(call.request, partial(self._answered, call, self._clock.seconds()))
        return True

    def _answered(self, call: PendingCall, sent: float, outcome: Outcome) -> None:
        self._session.heard(sent)
        answer = outcome.answer.error if isinstance(outcome.answer, MultiFailed) else outcome.answer
        if isinstance(answer, NoNode) and isinstance(call.request, Exists):
            answer = None
        if isinstance(answer, CoordinationError):
            self._calls.answered(call, None, answer)
        else:
            self._calls.answered(call, answer, None)

    def _fired(self, event: WatchEvent) -> None:
        """Fire both kinds of watches for the end of a node, which the host reports once."""
        if event.type is not EventType.CHILDREN:
            self._watches.fire(WatchKind.DATA, event.path, event.type)
        if event.type in (EventType.CHILDREN, EventType.DELETED):
            self._watches.fire(WatchKind.CHILDREN, event.path, event.type)

    # Calls

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
        """See ICoordination."""
        request = self._owned(Create(path, data, tuple(acl), ephemeral, sequence))
        problem = self._problem(request)
        if problem is not None or not makepath:
            return self._ask(request, _path_of, timeout)
        return Deferred.fromCoroutine(self._create_with_parents(request, tuple(acl), timeout))

    async def _create_with_parents(self, request: Create, acl: tuple[Acl, ...], timeout: float | None) -> str:
        until = self._clock.seconds() + (self._timeout if timeout is None else timeout)

        def left() -> float:
            return max(0.0, until - self._clock.seconds())

        missing = [request]
        while True:
            try:
                path: str = await self._ask(missing[-1], _path_of, left())
            except NoNode:
                missing.append(self._owned(Create(parent_of(missing[-1].path), acl=acl)))
                continue
            except NodeExists:
                if len(missing) == 1:
                    raise
                path = ""  # another client created the parent meanwhile
            missing.pop()
            if not missing:
                return path

    def get(self, path: str, timeout: float | None = None) -> Deferred[tuple[bytes, Stat]]:
        """See ICoordination."""
        return self._ask(GetData(path), _data_of, timeout)

    def get_and_watch(
        self, path: str, timeout: float | None = None
    ) -> tuple[Deferred[tuple[bytes, Stat]], Deferred[WatchEvent]]:
        """See ICoordination."""
        return self._ask_and_watch(GetData(path, watch=True), _data_of, timeout)

    def exists(self, path: str, timeout: float | None = None) -> Deferred[Stat | None]:
        """See ICoordination."""
        return self._ask(Exists(path), _as_it_is, timeout)

    def exists_and_watch(
        self, path: str, timeout: float | None = None
    ) -> tuple[Deferred[Stat | None], Deferred[WatchEvent]]:
        """See ICoordination."""
        return self._ask_and_watch(Exists(path, watch=True), _as_it_is, timeout)

    def get_children(self, path: str, timeout: float | None = None) -> Deferred[list[str]]:
        """See ICoordination."""
        return self._ask(GetChildren(path), _names_of, timeout)

    def get_children_and_watch(
        self, path: str, timeout: float | None = None
    ) -> tuple[Deferred[list[str]], Deferred[WatchEvent]]:
        """See ICoordination."""
        return self._ask_and_watch(GetChildren(path, watch=True), _names_of, timeout)

    def set(self, path: str, data: bytes, version: int = ANY_VERSION, timeout: float | None = None) -> Deferred[Stat]:
        """See ICoordination."""
        return self._ask(SetData(path, data, version), _as_it_is, timeout)

    def delete(self, path: str, version: int = ANY_VERSION, timeout: float | None = None) -> Deferred[None]:
        """See ICoordination."""
        return self._ask(Delete(path, version), _as_it_is, timeout)

    def get_acl(self, path: str, timeout: float | None = None) -> Deferred[tuple[tuple[Acl, ...], Stat]]:
        """See ICoordination."""
        return self._ask(GetAcl(path), _as_it_is, timeout)

    def set_acl(
        self, path: str, acl: Sequence[Acl], version: int = ANY_VERSION, timeout: float | None = None
    ) -> Deferred[Stat]:
        """See ICoordination."""
        return self._ask(SetAcl(path, tuple(acl), version), _as_it_is, timeout)

    def multi(self, operations: Sequence[Operation], timeout: float | None = None) -> Deferred[list[str | Stat | None]]:
        """See ICoordination."""
        return self._ask(Multi(tuple(map(self._owned, operations))), _results_of, timeout)

    def sync(self, path: str = "/", timeout: float | None = None) -> Deferred[None]:
        """See ICoordination."""
        return self._ask(Sync(path), _as_it_is, timeout)

    def authenticate(self, user: str, password: str, timeout: float | None = None) -> Deferred[None]:
        """See ICoordination. It is known to the tree before any later call."""
        self._session.authenticate(digest_identity(f"{user}:{password}".encode()))
        return succeed(None)

    def _owned(self, operation: AnyOperation) -> AnyOperation:
        """Return the operation with the client's access list, if the caller gave none."""
        if isinstance(operation, Create) and operation.acl is OPEN_ACL:
            return evolve(operation, acl=self.access_lists.of(operation.path))
        return operation

    def _ask(self, request: Request, read: Callable[[Any], T], timeout: float | None) -> Deferred[T]:
        problem = self._problem(request)
        if problem is not None:
            return fail(problem)
        return self._calls.ask(request, _place_of(request), self._seconds(timeout)).addCallback(read)

    def _ask_and_watch(
        self, request: GetData | Exists | GetChildren, read: Callable[[Any], T], timeout: float | None
    ) -> tuple[Deferred[T], Deferred[WatchEvent]]:
        kind = WatchKind.CHILDREN if isinstance(request, GetChildren) else WatchKind.DATA
        watch = self._watches.make(kind, request.path)
        problem = self._problem(request)
        if problem is not None:
            return fail(problem), watch

        def leave(_: object) -> None:
            self._watches.leave(kind, request.path, watch)

        return self._calls.ask(request, request.path, self._seconds(timeout), leave).addCallback(read), watch

    def _problem(self, request: Request) -> CoordinationError | None:
        """Return the error of a request that must not be sent, else None."""
        if self.state is SessionState.CLOSED:
            return ClientClosing()
        try:
            for each in request.operations if isinstance(request, Multi) else (request,):
                if not isinstance(each, SetWatches):
                    check_path(f"{each.path}0" if isinstance(each, Create) and each.sequence else each.path)
        except CoordinationError as error:
            return error
        return None

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else timeout


def _place_of(request: Request) -> str:
    """Return the path that an error names."""
    return "/" if isinstance(request, Multi | SetWatches) else request.path


def _as_it_is(answer: Any) -> Any:
    return answer


def _path_of(answer: Created) -> str:
    return answer.path


def _data_of(answer: NodeData) -> tuple[bytes, Stat]:
    return answer.data, answer.stat


def _names_of(answer: Any) -> list[str]:
    children: Children = answer
    return sorted(children.names)


def _results_of(answer: Any) -> list[str | Stat | None]:
    results: tuple[OperationResult, ...] = answer
    return [each.path if isinstance(each, Created) else each for each in results]
