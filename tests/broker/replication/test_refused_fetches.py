"""Tests of a leader that takes connections and refuses what is asked on them or does not answer, and of requests that
it would refuse.
"""

from __future__ import annotations

from typing import Any, cast
from unittest import mock

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import provider

from logd.broker.replication.broker_links import ANSWER_SECONDS, BrokerLinks
from logd.broker.replication.follower import FollowerRole
from logd.broker.replication.replica_fetcher import RETRY_DELAYS, ReplicaFetcher
from logd.broker.replication.replica_requests import ReplicaRequests
from logd.errors import BrokerUnavailable, StorageFull
from logd.net.connection import BrokerConnection
from logd.protocol.requests.replica_fetch import ReplicaFetch, ReplicaFetchResponse, ReplicaFetchV1, ReplicaPart
from logd.protocol.requests.requests import MAX_ITEMS, decode_request, encode_request
from logd.security.credentials import Credentials
from tests.broker.replication.test_replicas import ReplicaTestCase

SECONDS = 20
#: More partitions than a list of a request may have.
MANY = MAX_ITEMS + 100


class RefusedFetchTests(ReplicaTestCase):
    """A partition of three replicas."""

    def test_it_is_asked_at_the_longest_delay_and_told_of_once(self) -> None:
        """A connection that can be opened is no success; and the followers catch up once the leader answers."""
        self.send(b"before")
        asked, told = list[int](), list[str]()

        def refuse(session: ReplicaRequests, request: ReplicaFetch) -> ReplicaFetchResponse:
            asked.append(request.broker)
            return ReplicaFetchResponse(StorageFull.code, text="no disk")

        @provider(ILogObserver)
        def listen(event: LogEvent) -> None:
            if "cannot be followed" in str(event.get("log_format")):
                told.append(str(event["error"]))

        globalLogPublisher.addObserver(listen)
        self.addCleanup(globalLogPublisher.removeObserver, listen)
        for follower in self.followers:
            follower.kill()
            follower.start()
        with mock.patch.object(ReplicaRequests, "fetch", refuse):
            self.cluster.advance(float(SECONDS))
        for follower in self.followers:
            assert follower.store is not None
            count = asked.count(follower.store.broker_id)
            self.assertGreater(count, 3)
            self.assertLess(count, 2 * SECONDS / RETRY_DELAYS[1] + 10)
        self.assertEqual(len([text for text in told if "no disk" in text]), 2, told)
        self.send(b"after")
        self.cluster.advance(5.0)
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))


@frozen(eq=False)
class Role:
    """A partition that follows."""

    number: int
    wanted_bytes: int = 0

    @property
    def place(self) -> tuple[str, int]:
        """See FollowerRole."""
        return "t", self.number

    def part(self) -> ReplicaPart:
        """See FollowerRole."""
        return ReplicaPart("t", self.number, 0, 0, 0, 0)


@define(eq=False)
class Leader:
    """The connection to a leader, which answers when it is told to."""

    asked: list[tuple[ReplicaFetchV1, Deferred[Any]]] = field(factory=list)

    def request(self, request: ReplicaFetchV1) -> Deferred[Any]:
        """See BrokerConnection."""
        answer: Deferred[Any] = Deferred()
        self.asked.append((request, answer))
        return answer

    def when_lost(self) -> Deferred[Any]:
        """See BrokerConnection."""
        return Deferred()

    def abort(self) -> None:
        """See BrokerConnection."""


@frozen
class Links:
    """Opens the one connection."""

    leader: Leader
    me: int = 1

    def open(self, broker: int) -> Deferred[Any]:
        """See BrokerLinks."""
        return succeed(self.leader)


class ForgottenTests(SynchronousTestCase):
    """A fetcher that is to follow thousands of partitions no more, as when a leader hands all of them over."""

    def test_each_request_can_be_read(self) -> None:
        """The leader would close the connection, on which all that is left would be named anew."""
        leader = Leader()
        fetcher = ReplicaFetcher(0, lambda: "disk", Clock(), 1 << 20, cast(BrokerLinks, Links(leader)), lambda: 0.5)
        roles = [cast(FollowerRole, Role(number)) for number in range(MANY)]
        for role in roles:
            fetcher.add(role)
        fetcher.start()
        self.addCleanup(fetcher.stop)
        forgotten: set[tuple[str, int]] = set()
        for role in roles:
            fetcher.remove(role)
        while leader.asked:
            request, answer = leader.asked.pop(0)
            frame = b"".join(encode_request(request))
            decode_request(frame, 4, len(frame))
            forgotten.update(request.forgotten)
            if request.parts or request.forgotten:
                answer.callback(ReplicaFetchResponse(0))
        self.assertEqual(forgotten, {role.place for role in roles})


class SilentBroker:
    """A connection to a broker that takes requests, and answers none."""

    def __init__(self) -> None:
        self.aborted = False

    def request(self, request: Any) -> Deferred[Any]:
        """See BrokerConnection."""
        return Deferred()

    def abort(self) -> None:
        """See BrokerConnection."""
        self.aborted = True


class AuthenticationTests(SynchronousTestCase):
    """A broker that does not answer whether it lets the other one in."""

    def setUp(self) -> None:
        """Have it asked."""
        self.clock, self.broker = Clock(), SilentBroker()
        user, opened = Credentials("brokers", "secret"), succeed(cast(BrokerConnection, self.broker))
        links = BrokerLinks(1, self.clock, lambda broker: opened, lambda: user)
        self.opening = Deferred.fromCoroutine(links.open(2))
        self.assertNoResult(self.opening)

    def test_its_time_is_over(self) -> None:
        """It counts as one that cannot be reached, like any other error on the way."""
        self.clock.advance(ANSWER_SECONDS)
        self.failureResultOf(self.opening, BrokerUnavailable)
        self.assertTrue(self.broker.aborted)

    def test_nobody_waits_for_it_any_more(self) -> None:
        """The caller has to end: it learns that, and does not try again."""
        self.opening.cancel()
        self.failureResultOf(self.opening, CancelledError)
        self.assertTrue(self.broker.aborted)
