"""Tests of the bounds of what waits for messages, over all connections and for one."""

from __future__ import annotations

from logd.broker.requests import fetch, waiting_limits
from tests.broker.requests.fetching.test_fetch_wait import END, ENTRIES, FetchWaitTestCase, part
from tests.broker.requests.fetching.test_fetch_wait import fetch as fetch_of


class WaitingLimitsTests(FetchWaitTestCase):
    """Fetches of two parts, which wait at the end of both partitions."""

    def setUp(self) -> None:
        """Set bounds that a few fetches reach."""
        super().setUp()
        self.patch(waiting_limits, "MOST_IN_ALL", 6)
        self.patch(waiting_limits, "ALWAYS", 2)
        self.patch(fetch, "MOST_OF_CONNECTION", 5)
        self.waiting = fetch_of(part(END), part(0, partition=1))

    def waiting_parts(self) -> int:
        """Return the number of parts that wait, as the broker counts it."""
        return self.broker.counters.waiting_parts

    def test_the_oldest_fetch_of_a_connection_is_answered(self) -> None:
        """It has more than its share: the third fetch of two parts is one too many."""
        for _ in range(2):
            self.peer.send(self.waiting)
            self.assertEqual(self.answered(), [])
        self.peer.send(self.waiting)
        self.assertEqual(len(self.answered()), 1)
        self.assertEqual((self.waiting_parts(), self.broker.counters.fetches_cut_short), (4, 1))

    def test_others_may_wait_though_all_together_have_too_many(self) -> None:
        """Every connection may have a few parts waiting; what is more is answered without a wait."""
        self.patch(fetch, "MOST_OF_CONNECTION", 100)
        for _ in range(3):
            self.peer.send(self.waiting)
        self.settle()
        other = self.connect()
        other.send(self.waiting)
        self.settle()
        self.assertEqual((other.answers(), self.waiting_parts()), ([], 8))
        other.send(self.waiting)
        self.settle()
        self.assertEqual((len(other.answers()), self.waiting_parts()), (1, 8))

    def test_what_waits_no_more_does_not_count(self) -> None:
        """Answered by messages, by time, or lost with its connection."""
        self.peer.send(self.waiting)
        self.settle()
        self.put(ENTRIES[0])
        self.assertEqual(self.waiting_parts(), 0)
        self.peer.send(fetch_of(part(END + len(ENTRIES[0])), wait_ms=50))
        self.settle()
        self.assertEqual(self.waiting_parts(), 1)
        self.clock.advance(0.05)
        self.assertEqual(self.waiting_parts(), 0)
        self.peer.send(fetch_of(part(END + len(ENTRIES[0]))))
        self.settle()
        self.peer.lose()
        self.settle()
        self.assertEqual(self.waiting_parts(), 0)

    def test_a_flood_is_logged_now_and_then(self) -> None:
        """The first, second, fourth, eighth ... of a connection."""
        for _ in range(12):
            self.peer.send(self.waiting)
            self.settle()
        self.assertEqual(self.broker.counters.fetches_cut_short, 10)
        self.assertEqual(len(self.events.warnings("a fetch is answered without a wait")), 4)
