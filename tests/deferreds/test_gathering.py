"""Tests of logd.deferreds.gathering."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.gathering import for_each, gather, gather_some


class GatheringTestCase(SynchronousTestCase):
    """Works that end when the test says so."""

    def setUp(self) -> None:
        """None has begun."""
        self.begun: dict[int, Deferred[int]] = {}
        self.cancelled: list[int] = []

    async def work(self, number: int) -> int:
        """Wait for the test's word."""
        self.begun[number] = Deferred(lambda _: self.cancelled.append(number))
        return await self.begun[number]


class GatherTests(GatheringTestCase):
    """gather and gather_some."""

    def test_results_in_order(self) -> None:
        """The results come in the order of the works, whichever ends first."""
        all_of_it = Deferred.fromCoroutine(gather(map(self.work, range(3))))
        for number in (2, 0, 1):
            self.begun[number].callback(number * 10)
        self.assertEqual(self.successResultOf(all_of_it), [0, 10, 20])

    def test_first_error(self) -> None:
        """The first error is raised, and the others are cancelled without a word."""
        all_of_it = Deferred.fromCoroutine(gather(map(self.work, range(3))))
        self.begun[1].errback(ValueError("one"))
        self.failureResultOf(all_of_it, ValueError)
        self.assertEqual(self.cancelled, [0, 2])

    def test_cancelled(self) -> None:
        """Whoever cancels it cancels all works."""
        all_of_it = Deferred.fromCoroutine(gather(map(self.work, range(2))))
        all_of_it.cancel()
        self.failureResultOf(all_of_it, CancelledError)
        self.assertEqual(self.cancelled, [0, 1])

    def test_some_at_a_time(self) -> None:
        """Of many works the next ones begin once those before them are done."""
        all_of_it = Deferred.fromCoroutine(gather_some(map(self.work, range(3)), 2))
        self.assertEqual(list(self.begun), [0, 1])
        self.begun[0].callback(0)
        self.assertEqual(list(self.begun), [0, 1])
        self.begun[1].callback(1)
        self.begun[2].callback(2)
        self.assertEqual(self.successResultOf(all_of_it), [0, 1, 2])


class ForEachTests(GatheringTestCase):
    """for_each."""

    def test_bounded(self) -> None:
        """The next work begins when any of those under way has ended."""
        all_of_it = Deferred.fromCoroutine(for_each(range(4), self.work, 2))
        self.assertEqual(list(self.begun), [0, 1])
        self.begun[1].callback(1)
        self.assertEqual(list(self.begun), [0, 1, 2])
        for number in (2, 0, 3):
            self.begun[number].callback(number)
        self.assertIsNone(self.successResultOf(all_of_it))

    def test_nothing_to_do(self) -> None:
        """Without items it is done at once."""
        self.successResultOf(Deferred.fromCoroutine(for_each([], self.work, 2)))

    def test_errors(self) -> None:
        """A work that fails stops no other; the first error is raised when all have ended."""
        all_of_it = Deferred.fromCoroutine(for_each(range(3), self.work, 1))
        self.begun[0].errback(ValueError("zero"))
        self.begun[1].errback(KeyError("one"))
        self.assertNoResult(all_of_it)
        self.begun[2].callback(2)
        self.failureResultOf(all_of_it, ValueError)

    def test_cancelled(self) -> None:
        """Whoever cancels it cancels what is under way, and no further work begins."""
        all_of_it = Deferred.fromCoroutine(for_each(range(5), self.work, 2))
        all_of_it.cancel()
        self.failureResultOf(all_of_it, CancelledError)
        self.assertEqual((self.cancelled, list(self.begun)), ([0, 1], [0, 1]))
