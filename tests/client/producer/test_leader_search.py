"""Tests of logd.client.producer.leader_search: delays between searches, and their end."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.backoff import Backoff
from logd.client.producer.leader_search import LeaderSearch


class LeaderSearchTests(SynchronousTestCase):
    """Searches whose delays are 1, 2 and 4 seconds, the most."""

    def setUp(self) -> None:
        """Collect the errors that the searches are begun with."""
        self.clock = Clock()
        self.searches: list[Exception] = []
        self.search = LeaderSearch(self.clock, Backoff(1.0, 4.0, lambda: 1.0), self.searches.append)

    def delay(self) -> float:
        """Begin a search, and return the seconds until it happens."""
        self.search.begin(ValueError())
        (call,) = self.clock.getDelayedCalls()
        delay = call.getTime() - self.clock.seconds()
        self.clock.advance(delay)
        return delay

    def test_one_search_waits_at_a_time(self) -> None:
        """A second call has no effect; the search knows the first error."""
        first, second = ValueError("first"), ValueError("second")
        self.search.begin(first)
        self.search.begin(second)
        self.assertTrue(self.search.is_due)
        self.clock.advance(10)
        self.assertEqual((self.searches, self.search.is_due), ([first], False))

    def test_delays_grow_until_success(self) -> None:
        """Each search waits longer than the one before, until the leader has answered."""
        self.assertEqual([self.delay() for _ in range(4)], [1.0, 2.0, 4.0, 4.0])
        self.search.succeeded()
        self.assertEqual(self.delay(), 1.0)

    def test_a_failed_search_may_begin_the_next(self) -> None:
        """The callback of a search may do so at once."""
        search = LeaderSearch(self.clock, Backoff(1.0, 4.0, lambda: 1.0), lambda error: search.begin(error))
        search.begin(ValueError())
        self.clock.advance(1)
        self.assertTrue(search.is_due)
        search.stop()

    def test_a_stopped_search_does_not_happen(self) -> None:
        """No timer stays behind, and stopping twice is harmless."""
        self.search.begin(ValueError())
        self.search.stop()
        self.assertEqual((self.clock.getDelayedCalls(), self.search.is_due), ([], False))
        self.search.stop()
