"""A broker with quotas in its tree, and clients that have authenticated."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from logd.coord.registries.quotas import change_quota
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.security.quotas import Quota
from tests.broker.rig import BrokerTestCase, Peer
from tests.log.entries import plain

LARGE = plain(b"x" * 50_000)
EXCEEDED = 120


class QuotaTestCase(BrokerTestCase):
    """A broker, quotas in the tree, and clients that have authenticated."""

    def setUp(self) -> None:
        """Make a topic."""
        super().setUp()
        self.create("t")

    def set_quota(self, user: str, **limits: int) -> None:
        """Give a user a quota, and let the broker see that."""
        changing = Deferred.fromCoroutine(change_quota(self.access.client, user, lambda _: Quota(**limits)))
        self.settle()
        self.successResultOf(changing)

    def connect_as(self, user: str, host: str = "10.0.0.7") -> Peer:
        """Connect a client that has authenticated."""
        peer = self.connect(host)
        session = self.session_of(peer)
        session.requester.principal, session.requester.authenticated = user, True
        self.broker.quotas.authenticated(session)
        return peer

    def session_of(self, peer: Peer) -> Any:
        """Return the broker's session with a client."""
        (session,) = [each for each in self.broker.sessions if each.connection is peer.connection]
        return session

    def send_large(self, peer: Peer) -> None:
        """Send a message of 50 KB."""
        peer.send(ProduceAck(1, 1000, (ProducePart("t", 0, 0, False, LARGE),)))
        self.settle()

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds)
        self.settle()
