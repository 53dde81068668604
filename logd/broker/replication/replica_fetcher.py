"""Fetches what one leader has for all partitions that follow it, over one connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from attrs import define, field
from twisted.logger import Logger

from logd.backoff import Backoff
from logd.broker.replication.broker_links import BrokerLinks
from logd.broker.replication.follower import FollowerRole
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.deferreds.timeouts import with_timeout
from logd.errors import LogdError, NotLeader, StaleLeaderEpoch, UnsupportedVersion, error_for_code
from logd.interfaces import Clock, Timer
from logd.protocol.requests.replica_fetch import (
    ReplicaFetch,
    ReplicaFetchResponse,
    ReplicaFetchV1,
    ReplicaProgress,
)
from logd.protocol.requests.responses import ErrorResponse

if TYPE_CHECKING:
    from logd.net.connection import BrokerConnection

#: Milliseconds for which a leader without news waits before it answers.
WAIT_MS = 500
#: Seconds for an answer beyond that.
ANSWER_SECONDS = 10.0
#: Seconds before a partition that could not follow is tried again; and if its leader is about to lead.
RETRY_SECONDS = 1.0
SOON_SECONDS = 0.05
#: The least and the most seconds between attempts to connect.
RETRY_DELAYS = (0.05, 1.0)
#: With so many bytes of one partition in an answer the next ones are asked for before these are written.
AHEAD_BYTES = 256 << 10
#: The most partitions that one request names, and the most that it gives up: a tenth of a second of a turn at the
#: leader, if all are in sync by it.
MOST_PARTS = 500

Place = tuple[str, int]


@define(eq=False)
class LeaderConnection:
    """A connection to a leader, and what was asked on it."""

    connection: BrokerConnection
    #: The number of the first request without uuids; None, unless the leader is of an earlier release and refuses them.
    without_uuids_from: int | None = None
    #: Requests without an answer: at most two, of which the first is answered at once.
    under_way: int = 0
    #: The number of requests that were sent.
    sent: int = 0
    #: True once there was an answer without an error: a leader may take connections and refuse what is asked on them.
    has_answered: bool = False
    #: True once the leader has refused a request, and the reason was told.
    is_refused: bool = False
    #: The request that has named each partition last, 1 for the first: the answers to earlier ones are not about it.
    named: dict[Place, int] = field(factory=dict)


@define(eq=False)
class ReplicaFetcher:
    """The partitions that follow one broker. It ends by ``stop``."""

    _log = Logger()

    leader: int
    _instance: Callable[[], str]
    _clock: Clock
    _max_bytes: int
    _links: BrokerLinks
    _random: Callable[[], float]
    _roles: dict[Place, FollowerRole] = field(factory=dict, init=False)
    #: Partitions that the next request names, and those that it says are not followed any more.
    _news: dict[Place, FollowerRole] = field(factory=dict, init=False)
    _forgotten: set[Place] = field(factory=set, init=False)
    #: Partitions with a flushed end that the leader does not know.
    _flushed: dict[Place, FollowerRole] = field(factory=dict, init=False)
    _telling: Timer | None = field(default=None, init=False)
    _link: LeaderConnection | None = field(default=None, init=False)
    _background: Background = field(factory=lambda: Background("following a leader"), init=False)
    _retries: set[Timer] = field(factory=set, init=False)
    _trouble: str = field(default="", init=False)
    _stopped: bool = field(default=False, init=False)

    def start(self) -> None:
        """Connect, and fetch from then on."""
        self._background.start(self._run())

    def stop(self) -> None:
        """Stop fetching."""
        self._stopped = True
        self._background.stop()
        for timer in (*self._retries, *([self._telling] if self._telling is not None else [])):
            if timer.active():
                timer.cancel()
        self._retries.clear()
        self._telling = None
        self._lose()

    def __len__(self) -> int:
        """Return the number of partitions that follow this leader."""
        return len(self._roles)

    def add(self, role: FollowerRole) -> None:
        """Fetch a partition from its log's end on; also after it was truncated."""
        self._note(role)
        self._send_soon()

    def _note(self, role: FollowerRole) -> None:
        self._roles[role.place] = role
        self._news[role.place] = role
        self._forgotten.discard(role.place)

    def remove(self, role: FollowerRole) -> None:
        """Fetch a partition no more."""
        if self._roles.get(role.place) is role:
            del self._roles[role.place]
            if self._link is not None:
                self._link.named.pop(role.place, None)
            self._news.pop(role.place, None)
            self._flushed.pop(role.place, None)
            self._forgotten.add(role.place)
            self._send_soon()

    def tell(self, role: FollowerRole) -> None:
        """Tell the leader what is flushed, with all that is flushed in the same turn of the reactor."""
        if self._roles.get(role.place) is role:
            self._flushed[role.place] = role
            if self._telling is None and not self._stopped:
                self._telling = self._clock.callLater(0, self._tell_now)

    def _tell_now(self) -> None:
        self._telling = None
        link = self._link
        if link is None or self._stopped:
            self._flushed.clear()
            return
        told = list(islice(self._flushed, MOST_PARTS))
        roles = {place: self._flushed.pop(place) for place in told}
        parts = tuple([role.progress() for place, role in roles.items() if place not in self._news])
        try:
            if parts:
                link.connection.send_only(ReplicaProgress(parts))
        except LogdError:
            self._flushed.clear()  # the connection is lost: the next one begins with the positions
        if self._flushed:
            self._telling = self._clock.callLater(0, self._tell_now)

    # The connection

    async def _run(self) -> None:
        backoff = Backoff(*RETRY_DELAYS, self._random)
        while not self._stopped:
            try:
                connection = await self._links.open(self.leader)
            except LogdError as error:
                self._say(str(error))
                await sleep(self._clock, backoff.next())
                continue
            if self._stopped:
                connection.abort()
                return
            self._link = link = LeaderConnection(connection)
            self._name_all()
            lost = connection.when_lost()
            self._send_soon()
            reason = await lost
            self._lose()
            if link.has_answered:
                backoff.reset()
            if not link.is_refused:
                self._say(f"the connection was lost: {reason}")
            await sleep(self._clock, backoff.next())

    def _name_all(self) -> None:
        """Have all partitions named again: the leader knows none of them."""
        self._news, self._forgotten = dict(self._roles), set()

    def _lose(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.connection.abort()

    def _say(self, text: str) -> None:
        if self._trouble != text and not self._stopped:
            self._trouble = text
            self._log.info("broker {leader} cannot be followed now: {error}", leader=self.leader, error=text)

    # Requests and answers

    def _send_soon(self) -> None:
        """Send a request unless two are under way: the leader answers the first as soon as the second comes."""
        link = self._link
        if link is None or link.under_way >= 2 or self._stopped:
            return
        if not link.under_way or self._news or self._forgotten:
            self._send(link)

    def _send(self, link: LeaderConnection) -> None:
        connection = link.connection
        places = list(islice(self._news, MOST_PARTS))
        roles = [self._news.pop(place) for place in places]
        forgotten = tuple(sorted(self._forgotten)[:MOST_PARTS])
        self._forgotten.difference_update(forgotten)
        most = max((role.wanted_bytes for role in roles), default=0)
        max_bytes = max(self._max_bytes, most)
        parts = tuple([role.part() for role in roles])
        version = ReplicaFetchV1 if link.without_uuids_from is None else ReplicaFetch
        request = version(self._links.me, self._instance(), WAIT_MS, max_bytes, parts, forgotten)
        link.under_way += 1
        link.sent += 1
        link.named.update(dict.fromkeys(places, link.sent))
        try:
            answer = with_timeout(self._clock, WAIT_MS / 1000 + ANSWER_SECONDS, connection.request(request))
        except LogdError:
            connection.abort()
            return
        answer.addCallbacks(self._answered, lambda failure: connection.abort(), callbackArgs=(link, link.sent))
        answer.addErrback(self._failed, connection)

    def _failed(self, failure: Any, connection: BrokerConnection) -> None:
        self._log.failure("a bug in following broker {leader}", failure, leader=self.leader)
        connection.abort()

    def _answered(self, response: ReplicaFetchResponse | ErrorResponse, link: LeaderConnection, number: int) -> None:
        """Take the answer to the request with this number."""
        if link is not self._link:
            return
        link.under_way -= 1
        if response.error:
            is_refused = response.error == UnsupportedVersion.code
            if is_refused and link.without_uuids_from is None:
                link.without_uuids_from = link.sent + 1
                self._name_all()
            if is_refused and number < (link.without_uuids_from or 0):
                self._send_soon()
                return
            link.is_refused = True
            self._say(str(error_for_code(response.error, response.text)))
            link.connection.abort()
            return
        assert isinstance(response, ReplicaFetchResponse)
        if not link.has_answered:
            link.has_answered, self._trouble = True, ""
        large = [part for part in response.parts if len(part.message_set)]
        is_large = len(large) == 1 and len(large[0].message_set) >= AHEAD_BYTES
        soon: list[FollowerRole] = []
        later: list[FollowerRole] = []
        for part in response.parts:
            place = (part.topic, part.partition)
            role = self._roles.get(place)
            if role is None or place in self._news:  # what is to be named again has another position by now
                continue
            if link.named.get(place, number) > number:  # about a former role, perhaps that of a topic of this name
                continue
            sent_ahead = False

            def fetch_ahead(role: FollowerRole = role) -> None:
                nonlocal sent_ahead
                self._news[role.place] = role
                self._send_soon()
                sent_ahead = role.place not in self._news

            if role.take(part, fetch_ahead if is_large else _nothing):
                if len(part.message_set) and not sent_ahead:
                    self._news[place] = role
            elif part.error in (NotLeader.code, StaleLeaderEpoch.code):
                soon.append(role)
            elif role.trouble or part.error:
                later.append(role)
        self._try_later(soon, SOON_SECONDS)
        self._try_later(later, RETRY_SECONDS)
        self._send_soon()

    def _try_later(self, roles: Sequence[FollowerRole], seconds: float) -> None:
        if not roles:
            return

        def again() -> None:
            self._retries.discard(timer)
            for role in roles:
                if self._roles.get(role.place) is role:
                    self._note(role)
            self._send_soon()

        timer = self._clock.callLater(seconds, again)
        self._retries.add(timer)


def _nothing() -> None:
    """Ask for nothing ahead."""
