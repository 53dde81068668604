"""Tests of readings that are shared by all who ask."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import CoordinationUnavailable
from logd.web.console.shared_readings import SharedReading


class SharedReadingTests(SynchronousTestCase):
    """A reading whose result is shown for five seconds."""

    def setUp(self) -> None:
        """Make it."""
        self.clock = Clock()
        self.readings: list[Deferred[str]] = []
        self.shared = SharedReading(self.clock, 5.0, self.read)

    async def read(self) -> str:
        """Wait for a result that the test gives."""
        self.readings.append(Deferred())
        return await self.readings[-1]

    def ask(self) -> Deferred[str]:
        """Ask for the result."""
        return Deferred.fromCoroutine(self.shared.get())

    def test_all_who_ask_meanwhile_have_the_same_reading(self) -> None:
        """It goes on if the first of them leaves, and its result is shown again for a while."""
        first, second = self.ask(), self.ask()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.clock.advance(60)
        third = self.ask()
        self.assertEqual(len(self.readings), 1)
        self.readings[0].callback("found")
        self.assertEqual([self.successResultOf(each) for each in (second, third)], ["found"] * 2)
        self.clock.advance(4.9)
        self.assertEqual(self.successResultOf(self.ask()), "found")
        self.clock.advance(0.2)
        fourth = self.ask()
        self.readings[1].callback("anew")
        self.assertEqual(self.successResultOf(fourth), "anew")

    def test_an_error_is_told_to_all_and_the_next_one_reads_again(self) -> None:
        """Nothing of before is shown."""
        asking = [self.ask(), self.ask()]
        self.readings[0].errback(CoordinationUnavailable("away"))
        for each in asking:
            self.failureResultOf(each, CoordinationUnavailable)
        again = self.ask()
        self.readings[1].callback("back")
        self.assertEqual(self.successResultOf(again), "back")

    def test_a_defect_that_nobody_waits_for_is_logged(self) -> None:
        """An error that is expected of a cluster is not."""
        for error, logged in ((CoordinationUnavailable("away"), 0), (ZeroDivisionError(), 1)):
            asking = self.ask()
            asking.cancel()
            self.failureResultOf(asking, CancelledError)
            self.readings[-1].errback(error)
            self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), logged)

    def test_a_stop_ends_it(self) -> None:
        """Those who wait are told so."""
        asking = self.ask()
        self.shared.stop()
        self.failureResultOf(asking, CoordinationUnavailable)
        self.shared.stop()
