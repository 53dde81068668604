"""Handler of FetchWait, version 1: the fetch sessions of one connection, by the numbers that the client gave them."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.broker.reading import ConsumedLogs
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.fetch_session import FetchSession
from logd.broker.requests.waiting_limits import may_wait
from logd.broker.security.rights import Rights
from logd.errors import NoFetchSession, WireError
from logd.protocol.requests.fetch_session import AT_ONCE, EXACT, FetchWaitResponseV1, FetchWaitV1, SessionPart
from logd.protocol.requests.fields import size_of
from logd.protocol.requests.requests import MAX_ITEMS
from logd.protocol.requests.responses import ErrorResponse

#: Fetch sessions of one connection. A consumer keeps one with each broker.
MOST_SESSIONS = 10
#: Partitions that one session may watch.
MOST_PARTS = MAX_ITEMS


class FetchSessionRequests:
    """The fetch sessions of one connection. They end with it."""

    def __init__(self, broker: BrokerCore, rights: Rights) -> None:
        self._broker = broker
        self._rights = rights
        self._sessions: dict[int, FetchSession] = {}
        #: The epoch of the last request of each session.
        self._epochs: dict[int, int] = {}

    def fetch(
        self, request: FetchWaitV1
    ) -> FetchWaitResponseV1 | ErrorResponse | Deferred[FetchWaitResponseV1 | ErrorResponse]:
        """Change a session as the request says, and answer with the parts that have something.

        A request that cannot be taken ends its session, so that a client never waits for what the broker has not noted.
        """
        broker = self._broker
        broker.counters.fetch_requests += 1
        number = request.session
        try:
            session = self._begun(number) if request.epoch == 0 else self._next(number, request.epoch)
            self._change(session, request)
        except WireError as error:
            self._end(number)
            return ErrorResponse(error.code, str(error))
        self._epochs[number] = request.epoch
        most = broker.settings.fetch_max_bytes
        max_bytes = min(request.max_bytes, most) if request.max_bytes > 0 else most
        wait_ms = 0 if broker.stopping else request.max_wait_ms
        room = broker.quotas.answer_bytes(self._rights.requester, most)
        answer = session.fetch(wait_ms, request.min_bytes, max_bytes, room)
        if isinstance(answer, Deferred):
            return answer.addCallback(lambda parts: self._response(number, parts))
        return self._response(number, answer)

    def finish(self) -> None:
        """Answer the requests that wait with what there is, as the broker is stopping."""
        for session in tuple(self._sessions.values()):
            session.finish()

    def rights_changed(self) -> None:
        """Answer what may not be read any more with an error, as access rules have changed."""
        for session in tuple(self._sessions.values()):
            session.rights_changed()

    def lost(self) -> None:
        """End the sessions of a lost connection."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            self._broker.counters.session_parts -= len(session)
            session.cancel()

    def _begun(self, number: int) -> FetchSession:
        """Begin a session, in place of another one with that number."""
        self._end(number)
        if len(self._sessions) >= MOST_SESSIONS:
            raise NoFetchSession(f"a connection may have {MOST_SESSIONS} fetch sessions")
        broker = self._broker
        session = FetchSession(
            ConsumedLogs(broker.store, broker.topics, broker.counters.latencies.delivered),
            broker.clock,
            broker.threads,
            broker.large_fetches,
            self._rights,
        )
        self._sessions[number] = session
        self._epochs[number] = 0
        return session

    def _next(self, number: int, epoch: int) -> FetchSession:
        """Return a session for the request that has the next epoch."""
        session = self._sessions.get(number)
        if session is None:
            raise NoFetchSession(f"this connection has no fetch session {number}; begin one with epoch 0")
        expected = self._epochs[number] + 1
        if epoch != expected:
            raise NoFetchSession(f"fetch session {number} expected epoch {expected} and got {epoch}; begin it anew")
        return session

    def _change(self, session: FetchSession, request: FetchWaitV1) -> None:
        counters = self._broker.counters
        before = len(session)
        try:
            for number in request.forgotten:
                session.forget(number)
            if len(session) + len(request.new) > MOST_PARTS:
                raise NoFetchSession(f"a fetch session may watch {MOST_PARTS} partitions")
            if not may_wait(counters, sum(map(len, self._sessions.values())), len(request.new)):
                raise NoFetchSession("the fetches of all clients of this broker watch too many partitions together")
            self._watch(session, request)
        finally:
            counters.session_parts += len(session) - before

    def _watch(self, session: FetchSession, request: FetchWaitV1) -> None:
        for topic, number, partition, leader_epoch, offset, max_bytes, flags in request.new:
            session.watch(number, topic, partition, leader_epoch)
            session.arm(number, offset, max_bytes, exact=bool(flags & EXACT), at_once=bool(flags & AT_ONCE))
        for number, offset, max_bytes, flags in request.moved:
            exact, at_once = bool(flags & EXACT), bool(flags & AT_ONCE)
            if not session.arm(number, offset, max_bytes, exact=exact, at_once=at_once):
                raise NoFetchSession(f"fetch session {request.session} does not watch a part {number}")

    def _end(self, number: int) -> None:
        """End a session; the request that waits in it is answered first."""
        session = self._sessions.pop(number, None)
        if session is not None:
            session.finish()
            self._broker.counters.session_parts -= len(session)
            session.cancel()
            del self._epochs[number]

    def _response(self, number: int, parts: list[SessionPart]) -> FetchWaitResponseV1:
        self._broker.counters.bytes_out += sum([size_of(part.message_set) for part in parts])
        return FetchWaitResponseV1(number, self._epochs[number], tuple(parts))
