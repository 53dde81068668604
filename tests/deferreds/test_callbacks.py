"""Tests of logd.deferreds.callbacks."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.callbacks import called_back


class CalledBackTests(SynchronousTestCase):
    """called_back."""

    def test_done(self) -> None:
        """It fires when it is called back, at once or later, and fails with an error."""
        self.assertIsNone(self.successResultOf(called_back(lambda done: done(None))))
        given: list[Callable[[BaseException | None], None]] = []
        later, failing = called_back(given.append), called_back(given.append)
        self.assertNoResult(later)
        given[0](None)
        self.assertIsNone(self.successResultOf(later))
        given[1](ValueError("no"))
        self.failureResultOf(failing, ValueError)

    def test_cancelled(self) -> None:
        """Whoever does not wait any more is not told; what is done calls back all the same."""
        given: list[Callable[[BaseException | None], None]] = []
        waiting = called_back(given.append)
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        given[0](None)
