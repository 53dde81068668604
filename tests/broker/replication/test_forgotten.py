"""Tests of a follower that is to follow thousands of partitions no more, as when a leader hands all of them over."""

from __future__ import annotations

from typing import Any, cast

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.replication.broker_links import BrokerLinks
from logd.broker.replication.follower import FollowerRole
from logd.broker.replication.replica_fetcher import ReplicaFetcher
from logd.protocol.requests.replica_fetch import ReplicaFetchResponse, ReplicaFetchV1, ReplicaPart
from logd.protocol.requests.requests import MAX_ITEMS, decode_request, encode_request

#: More than a list of a request may have.
MANY = MAX_ITEMS + 100


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
    """One fetcher, with more partitions than a list of a request may have."""

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
