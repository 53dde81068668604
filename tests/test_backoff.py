"""Tests of logd.backoff."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.backoff import Backoff


class BackoffTests(SynchronousTestCase):
    """Delays between attempts, with a random source that the test chooses."""

    def test_the_delay_doubles_up_to_the_limit(self) -> None:
        """The random source takes nothing off here."""
        backoff = Backoff(0.1, 0.5, lambda: 1.0)
        self.assertEqual([round(backoff.next(), 3) for _ in range(5)], [0.1, 0.2, 0.4, 0.5, 0.5])

    def test_jitter_takes_up_to_half(self) -> None:
        """Many clients that fail together do not come back together."""
        self.assertEqual(Backoff(1.0, 9.0, lambda: 0.0).next(), 0.5)

    def test_a_success_begins_with_the_first_delay_again(self) -> None:
        """The two thousand failures before it do not overflow."""
        backoff = Backoff(1.0, 9.0, lambda: 1.0)
        for _ in range(2000):
            backoff.next()
        backoff.reset()
        self.assertEqual(backoff.next(), 1.0)
