"""Kafka's incremental fetches (KIP-227): the fetch session of one connection, over the one that native consumers use.

A client names a partition when its position has changed, and expects all the others in the answers as well. So those
that the last answer carried, and that the request does not name, are armed once more where they were. The partitions
that neither the answer nor the request names cost nothing.

The session ends with its connection: a client that connects again is told so, and names all of its partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from attrs import define, field
from twisted.internet.defer import Deferred

from logd.broker.kafka.error_codes import FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH
from logd.broker.kafka.fetches.shared_work import FetchWork
from logd.broker.reading import ConsumedLogs
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.fetch_session import FetchSession
from logd.broker.requests.waiting_limits import may_wait
from logd.broker.security.rights import Rights
from logd.deferreds.fair_turns import FairTurns
from logd.protocol.kafka.fetch import KafkaFetch, KafkaFetchPart
from logd.protocol.kafka.header import MOST_PARTS
from logd.protocol.requests.fetch_session import SessionPart
from logd.protocol.requests.fetch_wait import FetchedPart, FetchPart
from logd.protocol.requests.fields import size_of

#: A client with fewer partitions has no session: it costs about as little to name them all in each request.
LEAST_PARTS = 20
#: Kafka's topics have no longer names. A name is kept for as long as the session, also where there is no such topic.
LONGEST_NAME = 249
_LAST_EPOCH = (1 << 31) - 1

Partition = tuple[str, int]


class SessionRefused(Exception):
    """A request of a session that cannot be answered. The client begins anew with a request of all its partitions."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        #: Kafka's code.
        self.code = code


class FoundParts(NamedTuple):
    """The partitions that an answer carries: as they were asked for, and what there is, in the same order."""

    asked: list[KafkaFetchPart]
    parts: list[FetchedPart]


@define(eq=False)
class IncrementalFetches:
    """The fetch session of one connection, if it has one.

    ``begin`` it behind the answer to a request of all partitions; then ``fetch``, one request after the other.
    """

    _broker: BrokerCore
    _rights: Rights
    _work: FetchWork
    #: Returns the part of a native request.
    _wanted: Callable[[KafkaFetchPart], FetchPart]
    #: The id of the session, 0 for none.
    id: int = field(default=0, init=False)
    #: The epoch of its next request.
    _epoch: int = field(default=0, init=False)
    _session: FetchSession | None = field(default=None, init=False)
    #: The partitions, as they were last asked for, by their numbers in the session.
    _asked: dict[int, KafkaFetchPart] = field(factory=dict, init=False)
    _numbers: dict[Partition, int] = field(factory=dict, init=False)
    _last_number: int = field(default=0, init=False)
    #: The partitions that the next request has armed, whether it names them or not.
    _to_arm: dict[int, None] = field(factory=dict, init=False)
    #: The partitions whose end the client has not learnt, or not since their last error.
    _untold: set[int] = field(factory=set, init=False)
    _lost: bool = field(default=False, init=False)

    async def begin(self, parts: tuple[KafkaFetchPart, ...], failed: Iterable[Partition], turns: FairTurns) -> int:
        """Begin a session with the parts of a request that is answered; return its id, or 0 if there is to be none.

        ``failed``: the partitions that are answered with an error.
        """
        self.end()
        if len(parts) < LEAST_PARTS:
            return 0
        try:
            await self._take(parts, turns)
        except SessionRefused:
            self.end()
        if not self._asked:
            return 0
        # The answer tells the ends of all others.
        self._untold = {number for key in failed if (number := self._numbers.get(key)) is not None}
        broker = self._broker
        logs = ConsumedLogs(broker.store, broker.topics, broker.counters.latencies.delivered)
        self._session = FetchSession(logs, broker.clock, broker.threads, broker.large_fetches, self._rights)
        self.id, self._epoch = self._work.next_session_id(), 1
        return self.id

    async def fetch(self, request: KafkaFetch, turns: FairTurns) -> FoundParts:
        """Return what there is for a request of the session: each range has to be closed.

        The session is over if that leaves it without any partition. Raises SessionRefused.
        """
        session = self._session
        if session is None or request.session != self.id:
            raise SessionRefused(FETCH_SESSION_ID_NOT_FOUND)
        if request.epoch != self._epoch:
            raise SessionRefused(INVALID_FETCH_SESSION_EPOCH)
        self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1
        try:
            await self._change(session, request, turns)
        except SessionRefused:
            self.end()
            raise
        if self._session is not session:
            return FoundParts([], [])
        broker = self._broker
        broker.counters.fetch_requests += 1
        most = broker.settings.fetch_max_bytes
        answer = session.fetch(
            0 if broker.stopping else request.max_wait_ms,
            request.min_bytes,
            min(max(request.max_bytes, 1), most),
            broker.quotas.answer_bytes(self._rights.requester, most),
        )
        parts = await answer if isinstance(answer, Deferred) else answer
        broker.counters.bytes_out += sum([size_of(part.message_set) for part in parts])
        return FoundParts([self._asked[part.number] for part in parts], [self._found(part) for part in parts])

    def finish(self) -> None:
        """Answer the request that waits with what there is."""
        if self._session is not None:
            self._session.finish()

    def rights_changed(self) -> None:
        """Answer what may not be read any more with an error."""
        if self._session is not None:
            self._session.rights_changed()

    def lost(self) -> None:
        """End the session, as the connection is lost. A request that waits is never answered."""
        self._lost = True
        self.end()

    def end(self) -> None:
        """End the session, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            session.cancel()
        self._broker.counters.session_parts -= len(self._asked)
        self.id = 0
        self._asked.clear()
        self._numbers.clear()
        self._to_arm.clear()
        self._untold.clear()

    async def _change(self, session: FetchSession, request: KafkaFetch, turns: FairTurns) -> None:
        """Change the partitions of the session as a request says, and arm those that are to be answered again."""
        await self._take(request.parts, turns)
        for key in request.forgotten:
            if turns.over:
                await turns.rest()
            if self._lost:
                return
            number = self._numbers.pop(key, None)
            if number is not None:
                session.forget(number)
                del self._asked[number]
                self._to_arm.pop(number, None)
                self._untold.discard(number)
                self._broker.counters.session_parts -= 1
        if not self._asked:
            self.end()
        while self._to_arm:
            number = next(iter(self._to_arm))
            del self._to_arm[number]
            topic, partition, leader_epoch, offset, max_bytes, exact = self._wanted(self._asked[number])
            session.watch(number, topic, partition, leader_epoch)
            session.arm(number, offset, max_bytes, exact=exact, at_once=False, even_empty=number in self._untold)
            if turns.over:
                await turns.rest()

    async def _take(self, parts: tuple[KafkaFetchPart, ...], turns: FairTurns) -> None:
        """Note partitions as they are asked for, to be armed.

        Raises SessionRefused if there are too many, or one has a name that no topic has.
        """
        counters = self._broker.counters
        for part in parts:
            if turns.over:
                await turns.rest()
            if self._lost:
                break
            key = part.topic, part.partition
            number = self._numbers.get(key)
            if number is None:
                there = len(self._asked)
                if there == MOST_PARTS or len(part.topic) > LONGEST_NAME or not may_wait(counters, there, 1):
                    raise SessionRefused(FETCH_SESSION_ID_NOT_FOUND)
                self._last_number = number = self._last_number + 1
                self._numbers[key] = number
                counters.session_parts += 1
                self._untold.add(number)
            self._asked[number] = part
            self._to_arm.pop(number, None)
            self._to_arm[number] = None

    def _found(self, part: SessionPart) -> FetchedPart:
        number, *found = part
        asked = self._asked[number]
        self._to_arm[number] = None
        if part.error:
            self._untold.add(number)
        else:
            self._untold.discard(number)
        return FetchedPart(asked.topic, asked.partition, *found)
