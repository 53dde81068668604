"""Tests of logd.broker.replication.broker_links: connections to brokers of a cluster that has users."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.replication.broker_links import ANSWER_SECONDS, BrokerLinks
from logd.errors import BrokerUnavailable
from logd.security.credentials import Credentials


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
        links = BrokerLinks(1, self.clock, lambda broker: succeed(self.broker), lambda: Credentials("brokers", "secret"))
        self.opening = Deferred.fromCoroutine(links.open(2))
        self.assertNoResult(self.opening)

    def test_its_time_is_over(self) -> None:
        """It counts as one that cannot be reached, like any other error on the way."""
        self.clock.advance(ANSWER_SECONDS)
        self.failureResultOf(self.opening, BrokerUnavailable)
        self.assertTrue(self.broker.aborted)

    def test_nobody_waits_for_it_any_more(self) -> None:
        """Who has to end learns that, and does not try again."""
        self.opening.cancel()
        self.failureResultOf(self.opening, CancelledError)
        self.assertTrue(self.broker.aborted)
