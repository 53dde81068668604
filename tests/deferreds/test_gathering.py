"""Tests of logd.deferreds.gathering."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.gathering import for_each, gather, gather_some


class GatheringTestCase(SynchronousTestCase):
    """Works that end when the test says so."""

    def setUp(self) -> None:
        """Begin with no work under way."""
        self.begun: dict[int, Deferred[int]] = {}
        self.cancelled: list[int] = []

    async def work(self, number: int) -> int:
        """Wait until the test fires the work's Deferred."""
        self.begun[number] = Deferred(lambda _: self.cancelled.append(number))
        return await self.begun[number]


class GatherTests(GatheringTestCase):
    """All works begin together, or in groups."""

    def test_results_come_in_the_order_of_the_works(self) -> None:
        """The order in which the works end does not matter."""
        all_of_it = Deferred.fromCoroutine(gather(map(self.work, range(3))))
        for number in (2, 0, 1):
            self.begun[number].callback(number * 10)
        self.assertEqual(self.successResultOf(all_of_it), [0, 10, 20])

    def test_the_first_error_cancels_the_other_works(self) -> None:
        """It is the one that is raised; the failures of the cancelled works are not logged."""
        all_of_it = Deferred.fromCoroutine(gather(map(self.work, range(3))))
        self.begun[1].errback(ValueError("one"))
        self.failureResultOf(all_of_it, ValueError)
        self.assertEqual(self.cancelled, [0, 2])

    def test_cancelling_gather_cancels_all_works(self) -> None:
        """No work goes on for a caller that is gone."""
        all_of_it = Deferred.fromCoroutine(gather(map(self.work, range(2))))
        all_of_it.cancel()
        self.failureResultOf(all_of_it, CancelledError)
        self.assertEqual(self.cancelled, [0, 1])

    def test_a_group_begins_when_the_one_before_is_done(self) -> None:
        """The third of three works waits for both of the first group."""
        all_of_it = Deferred.fromCoroutine(gather_some(map(self.work, range(3)), 2))
        self.assertEqual(list(self.begun), [0, 1])
        self.begun[0].callback(0)
        self.assertEqual(list(self.begun), [0, 1])
        self.begun[1].callback(1)
        self.begun[2].callback(2)
        self.assertEqual(self.successResultOf(all_of_it), [0, 1, 2])


class ForEachTests(GatheringTestCase):
    """A number of works at a time, each begun as another ends."""

    def test_the_next_work_begins_when_any_has_ended(self) -> None:
        """No more than two are under way, and no slot is left empty."""
        all_of_it = Deferred.fromCoroutine(for_each(range(4), self.work, 2))
        self.assertEqual(list(self.begun), [0, 1])
        self.begun[1].callback(1)
        self.assertEqual(list(self.begun), [0, 1, 2])
        for number in (2, 0, 3):
            self.begun[number].callback(number)
        self.assertIsNone(self.successResultOf(all_of_it))

    def test_an_empty_list_is_done_at_once(self) -> None:
        """No end of a work could fire the Deferred later."""
        self.successResultOf(Deferred.fromCoroutine(for_each([], self.work, 2)))

    def test_a_work_that_fails_stops_no_other(self) -> None:
        """The first error is raised when all have ended."""
        all_of_it = Deferred.fromCoroutine(for_each(range(3), self.work, 1))
        self.begun[0].errback(ValueError("zero"))
        self.begun[1].errback(KeyError("one"))
        self.assertNoResult(all_of_it)
        self.begun[2].callback(2)
        self.failureResultOf(all_of_it, ValueError)

    def test_cancelling_begins_no_further_work(self) -> None:
        """The works that are under way are cancelled."""
        all_of_it = Deferred.fromCoroutine(for_each(range(5), self.work, 2))
        all_of_it.cancel()
        self.failureResultOf(all_of_it, CancelledError)
        self.assertEqual((self.cancelled, list(self.begun)), ([0, 1], [0, 1]))
