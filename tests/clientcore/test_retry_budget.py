"""Tests of logd.clientcore.retry_budget."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.backoff import Backoff
from logd.clientcore.retry_budget import RetryBudget


class RetryBudgetTests(SynchronousTestCase):
    """RetryBudget."""

    def test_patience(self) -> None:
        """Delays grow while patience lasts; the first one that would end behind it raises the last error."""
        budget = RetryBudget(Backoff(1.0, 60.0, lambda: 1.0), 5.0)
        self.assertEqual([budget.delay(ValueError("a"), 10.0), budget.delay(ValueError("b"), 11.0)], [1.0, 2.0])
        self.assertRaisesRegex(ValueError, "c", budget.delay, ValueError("c"), 13.0)

    def test_begins_anew(self) -> None:
        """An attempt that succeeds gives all patience back, and the first delay comes first."""
        budget = RetryBudget(Backoff(1.0, 60.0, lambda: 1.0), 5.0)
        budget.delay(ValueError(), 0.0)
        budget.delay(ValueError(), 3.0)
        budget.reset()
        self.assertEqual(budget.delay(ValueError(), 100.0), 1.0)
