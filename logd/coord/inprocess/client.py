"""A client of a tree that is hosted in the same process: for tests and for simulations, on any clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger
from zope.interface import implementer

from logd.coord.errors import (
    ClientClosing,
    ConnectionLoss,
    CoordinationError,
    NodeExists,
    NoNode,
    OperationTimeout,
    SessionExpired,
)
from logd.coord.inprocess.attaching import SessionKeeper
from logd.coord.inprocess.calls import Calls
from logd.coord.inprocess.left import LeftWatches
from logd.coord.inprocess.link import Link
from logd.coord.interfaces import ICoordination
from logd.coord.records import (
    ANY_VERSION,
    OPEN_ACL,
    Acl,
    Children,
    Create,
    Created,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Identity,
    Multi,
    NodeData,
    Operation,
    Request,
    SessionState,
    SetData,
    SetWatches,
    Stat,
    Sync,
    WatchEvent,
)
from logd.coord.tree.host import TreeHost
from logd.coord.tree.outcome import OperationResult
from logd.coord.tree.pathnames import check_path, parent_of
from logd.interfaces import Clock

T = TypeVar("T")
_log = Logger()


@implementer(ICoordination)
class InProcessCoordination:
    """See ICoordination. ``link`` is where a simulation delays and cuts, and where it puts another host.

    ``session_timeout`` is in seconds, and the host's limits bound it. ``timeout``: how long calls wait when they do not
    say. ``reconnect``: seconds between two attempts to reach the host. ``last_contact`` is when the latest request that
    was answered had been *sent*, so that the session cannot expire before ``last_contact + session_timeout``.
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
        self.link = Link(host, clock, delay)
        self._clock = clock
        self._timeout = timeout
        self._listeners: list[Callable[[SessionState], None]] = []
        self._connecting: list[Deferred[Any]] = []
        self._closing: list[Deferred[None]] = []
        self._started = self._ended = False
        self._watches = LeftWatches()
        self._session = SessionKeeper(
            self.link, clock, session_timeout, reconnect, tuple(identities), self._changed, self._watches.fire
        )
        self._calls = Calls(clock, self._watches, self._session.heard)

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
        done: Deferred[None] = Deferred(lambda deferred: self._closing.remove(deferred))
        self._closing.append(done)
        if self.state is not SessionState.CLOSED:
            self._session.close(self._timeout, self._end)
        return done

    def _end(self) -> None:
        self._ended = True
        closing, self._closing = self._closing, []
        for each in closing:
            each.callback(None)

    def _changed(self, state: SessionState) -> None:
        if state is SessionState.SUSPENDED:
            self._calls.lost(partial(ConnectionLoss, "the connection was lost before the answer came"))
        elif state is SessionState.LOST:
            self._calls.refuse(partial(SessionExpired, "the session expired before the call was sent"))
        elif state is SessionState.CLOSED:
            self._calls.lost(ClientClosing)
            self._calls.refuse(ClientClosing)
        for listener in self._listeners[:]:
            try:
                listener(state)
            except Exception:
                _log.failure("a listener to the session's state failed")
        if self.state is not state:
            return  # a listener has closed the client
        if state is SessionState.CONNECTED:
            assert self._session.connection is not None
            self._calls.connected(self._session.connection)
            for each in self._connecting[:]:
                each.callback(self)
        elif state in (SessionState.SUSPENDED, SessionState.CLOSED):
            self._watches.forget(state)
        if state is SessionState.CLOSED:
            for each in self._connecting[:]:
                each.errback(ClientClosing())

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
        request = Create(path, data, tuple(acl), ephemeral, sequence)
        problem = self._problem(request)
        if problem is not None or not makepath:
            return self._ask(request, _path_of, timeout)
        return Deferred.fromCoroutine(self._create_with_parents(request, timeout))

    async def _create_with_parents(self, request: Create, timeout: float | None) -> str:
        until = self._clock.seconds() + (self._timeout if timeout is None else timeout)

        def left() -> float:
            return max(0.0, until - self._clock.seconds())

        missing = [request]
        while True:
            try:
                path: str = await self._ask(missing[-1], _path_of, left())
            except NoNode:
                missing.append(Create(parent_of(missing[-1].path), acl=request.acl))
                continue
            except NodeExists:
                if len(missing) == 1:
                    raise
                path = ""  # somebody else made the parent meanwhile
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
        return self._ask(Exists(path), _stat_or_none, timeout)

    def exists_and_watch(
        self, path: str, timeout: float | None = None
    ) -> tuple[Deferred[Stat | None], Deferred[WatchEvent]]:
        """See ICoordination."""
        return self._ask_and_watch(Exists(path, watch=True), _stat_or_none, timeout)

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

    def multi(self, operations: Sequence[Operation], timeout: float | None = None) -> Deferred[list[str | Stat | None]]:
        """See ICoordination."""
        return self._ask(Multi(tuple(operations)), _results_of, timeout)

    def sync(self, path: str = "/", timeout: float | None = None) -> Deferred[None]:
        """See ICoordination."""
        return self._ask(Sync(path), _as_it_is, timeout)

    def _ask(self, request: Request, read: Callable[[Any], T], timeout: float | None) -> Deferred[T]:
        problem = self._problem(request)
        if problem is not None:
            return fail(problem)
        return self._calls.ask(request, read, self._seconds(timeout))

    def _ask_and_watch(
        self, request: GetData | Exists | GetChildren, read: Callable[[Any], T], timeout: float | None
    ) -> tuple[Deferred[T], Deferred[WatchEvent]]:
        watch: Deferred[WatchEvent] = Deferred()
        problem = self._problem(request)
        if problem is not None:
            return fail(problem), watch
        return self._calls.ask(request, read, self._seconds(timeout), watch), watch

    def _problem(self, request: Request) -> CoordinationError | None:
        """Why nothing is sent."""
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


def _as_it_is(answer: Any) -> Any:
    if isinstance(answer, CoordinationError):
        raise answer
    return answer


def _path_of(answer: Created | CoordinationError) -> str:
    created: Created = _as_it_is(answer)
    return created.path


def _data_of(answer: NodeData | CoordinationError) -> tuple[bytes, Stat]:
    node: NodeData = _as_it_is(answer)
    return node.data, node.stat


def _stat_or_none(answer: Stat | CoordinationError) -> Stat | None:
    if isinstance(answer, NoNode):
        return None
    stat: Stat = _as_it_is(answer)
    return stat


def _names_of(answer: Children | CoordinationError) -> list[str]:
    children: Children = _as_it_is(answer)
    return sorted(children.names)


def _results_of(answer: tuple[OperationResult, ...] | CoordinationError) -> list[str | Stat | None]:
    results: tuple[OperationResult, ...] = _as_it_is(answer)
    return [each.path if isinstance(each, Created) else each for each in results]
