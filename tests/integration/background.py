"""A test case whose work goes on in the background while the test waits for what it does."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

_CLOCK: Any = reactor
#: Seconds between two looks at what a test waits for.
_LOOK_SECONDS = 0.005


class BackgroundTestCase(TestCase):
    """Background work fails the test from the next wait on."""

    def __init__(self, methodName: str = "runTest") -> None:  # noqa: N803  # trial's name
        super().__init__(methodName)  # type: ignore[no-untyped-call]  # trial has no types here
        self.failures: list[Failure] = []

    def go_on(self, work: Coroutine[Any, Any, None]) -> Deferred[None]:
        """Run ``work`` in the background, at most until the test ends; its failure fails the test."""
        working = Deferred.fromCoroutine(work).addErrback(self.failures.append)
        self.addCleanup(self._end, working)
        return working

    @staticmethod
    def _end(working: Deferred[None]) -> Deferred[None]:
        """Cancel background work and wait for its end: trial fails a test that leaves a delayed call behind."""
        working.cancel()
        return working

    async def until(self, true: Callable[[], bool]) -> None:
        """Poll until ``true()`` holds; the test's timeout is the limit."""
        while not true():
            for failure in self.failures:
                failure.raiseException()
            await deferLater(_CLOCK, _LOOK_SECONDS)
