"""Tests of logd.client.producer.leader_search: delays between searches, and their end."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.backoff import Backoff
from logd.client.producer.leader_search import LeaderSearch


class LeaderSearchTests(SynchronousTestCase):
    """Searches whose delays are 1, 2 and 4 seconds, the most."""

    def setUp(self) -> None:
        """Note the errors of the searches."""
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

    def test_one_at_a_time(self) -> None:
        """A second call while a search waits has no effect; the search knows the first error."""
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

    def test_again_from_search(self) -> None:
        """A search that fails at once may begin the next one."""
        search = LeaderSearch(self.clock, Backoff(1.0, 4.0, lambda: 1.0), lambda error: search.begin(error))
        search.begin(ValueError())
        self.clock.advance(1)
        self.assertTrue(search.is_due)
        search.stop()

    def test_stop(self) -> None:
        """A search that was stopped does not happen, and leaves no timer."""
        self.search.begin(ValueError())
        self.search.stop()
        self.assertEqual((self.clock.getDelayedCalls(), self.search.is_due), ([], False))
        self.search.stop()
