"""Tests of requests for pages that share the quotas of their users."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred

from logd.broker.security.page_quota import PageQuota
from logd.broker.security.requester import Requester
from logd.config.security import SecuritySettings
from tests.broker.security.quota_rig import QuotaTestCase


def someone(name: str, address: str = "10.0.0.7") -> Requester:
    """Return a user who has authenticated."""
    requester = Requester(address=address)
    requester.principal, requester.authenticated = name, True
    return requester


class PageQuotaTests(QuotaTestCase):
    """Requests of users of a broker with quotas."""

    options = {"security": SecuritySettings(requests_address_max=3)}  # noqa: RUF012

    def page(self, user: str, address: str = "10.0.0.7") -> tuple[PageQuota, Deferred[None]]:
        """Begin a request; return what it uses, and what fires when it may be answered."""
        page = self.broker.quotas.page(someone(user, address))
        assert page is not None
        return page, Deferred.fromCoroutine(page.begin())

    def test_a_user_in_debt_waits(self) -> None:
        """For what its pages were sent, and for what its other connections were sent and have sent."""
        self.set_quota("noisy", bytes_out=1000, bytes_in=1_000_000)
        page, begun = self.page("noisy")
        self.assertTrue(begun.called)
        page.sent(3000)
        page.leave()
        _, begun = self.page("noisy")
        self.assertFalse(begun.called)
        self.assertTrue(self.page("quiet")[1].called)
        self.pass_time(1.9)
        self.assertFalse(begun.called)
        self.pass_time(0.2)
        self.assertTrue(begun.called)

    def test_pages_hold_the_connections_of_their_user(self) -> None:
        """The bytes of a body are paid for by the producer beside it."""
        self.set_quota("noisy", bytes_in=100_000)
        self.page("noisy")[0].received(500_000)
        peer = self.connect_as("noisy")
        self.assertFalse(peer.reading)
        self.pass_time(5)
        self.assertTrue(peer.reading)

    def test_requests_under_way_are_counted_with_those_of_connections(self) -> None:
        """For a user over all addresses, and for an address over all users. A stream of updates is none of them."""
        self.set_quota("noisy", requests=2)
        pages = [self.page("noisy", f"10.0.0.{number}") for number in range(3)]
        self.settle()
        self.assertEqual([begun.called for _, begun in pages], [True, True, False])
        self.assertEqual(self.broker.quotas.usages["noisy"].requests.under_way, 2)
        pages[0][0].end_request()
        self.pass_time(0)
        self.assertTrue(pages[2][1].called)
        for page, _ in pages:
            page.leave()
        self.assertEqual(self.broker.quotas.usages["noisy"].requests.under_way, 0)

        here = [self.page(f"user{number}") for number in range(4)]
        self.settle()
        self.assertEqual([begun.called for _, begun in here], [True, True, True, False])
        here[1][0].leave()
        self.pass_time(0)
        self.assertTrue(here[3][1].called)

    def test_a_request_that_is_given_up_while_it_waits_holds_nobody(self) -> None:
        """The next one has its turn."""
        self.set_quota("noisy", bytes_out=1000)
        self.page("noisy")[0].sent(3000)
        (page, first), (_, second) = self.page("noisy"), self.page("noisy")
        first.cancel()
        self.failureResultOf(first, CancelledError)
        page.leave()
        self.pass_time(2.1)
        self.assertTrue(second.called)

    def test_a_quota_that_is_removed_lets_go(self) -> None:
        """As it does with connections."""
        self.set_quota("noisy", bytes_out=1000)
        self.page("noisy")[0].sent(30_000)
        _, begun = self.page("noisy")
        self.set_quota("noisy")
        self.pass_time(0)
        self.assertTrue(begun.called)

    def test_a_broker_that_stops_waits_for_none(self) -> None:
        """Whatever the debt."""
        self.set_quota("noisy", bytes_out=1000)
        self.page("noisy")[0].sent(30_000)
        _, begun = self.page("noisy")
        self.broker.quotas.stop()
        self.assertTrue(begun.called)
        self.assertIsNone(self.broker.quotas.page(someone("noisy")))

    def test_users_without_a_quota_are_not_measured(self) -> None:
        """No address is limited either."""
        self.set_quota("noisy", bytes_out=1000)
        nowhere = Requester()
        nowhere.principal, nowhere.authenticated = "quiet", True
        self.assertIsNone(self.broker.quotas.page(nowhere))
