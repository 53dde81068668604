"""Tests of logd.deferreds.callbacks."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.callbacks import called_back


class CalledBackTests(SynchronousTestCase):
    """Functions that call back with None or an error, as Deferreds."""

    def test_the_deferred_fires_when_it_is_called_back(self) -> None:
        """It may be called back at once or later, and fails with an error."""
        self.assertIsNone(self.successResultOf(called_back(lambda done: done(None))))
        given: list[Callable[[BaseException | None], None]] = []
        later, failing = called_back(given.append), called_back(given.append)
        self.assertNoResult(later)
        given[0](None)
        self.assertIsNone(self.successResultOf(later))
        given[1](ValueError("no"))
        self.failureResultOf(failing, ValueError)

    def test_a_late_call_back_after_a_cancel_does_no_harm(self) -> None:
        """The function cannot be stopped, so it calls back all the same."""
        given: list[Callable[[BaseException | None], None]] = []
        waiting = called_back(given.append)
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        given[0](None)
