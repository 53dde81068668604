"""Tests of tests.integration.background: work that goes on while a test waits ends with that test."""

from __future__ import annotations

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.trial.reporter import TestResult
from twisted.trial.unittest import SynchronousTestCase

from tests.integration.background import BackgroundTestCase


class EndlessWork(BackgroundTestCase):
    """A test that is over while its work goes on."""

    def runTest(self) -> None:  # noqa: N802  # trial calls it
        """Begin the work."""
        self.go_on(self.work())

    async def work(self) -> None:
        """Wait again and again."""
        while True:
            await deferLater(reactor, 0.01)


class BackgroundWorkTests(SynchronousTestCase):
    """A test is run inside this one."""

    def test_work_ends_with_its_test(self) -> None:
        """Trial would fail it for a delayed call that is left."""
        result = TestResult()
        EndlessWork().run(result)
        self.assertEqual((result.successes, result.errors), (1, []))
