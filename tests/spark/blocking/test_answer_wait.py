"""Tests of logd.spark.blocking.answer_wait: the times for which a socket is waited for."""

from __future__ import annotations

from itertools import count

from twisted.trial.unittest import SynchronousTestCase

from logd.spark.blocking.answer_wait import AnswerWait


class AnswerWaitTests(SynchronousTestCase):
    """``AnswerWait``."""

    def test_a_time_to_wait_is_never_over(self) -> None:
        """Time passes between any two looks at the clock, and a socket takes no timeout below 0, and 0 as "at once"."""
        for step in (0.01, 0.3, 0.7, 1.1):
            wait = AnswerWait("Fetch", 10.0, count(0.0, step).__next__, lambda: False)
            found = []
            with self.assertRaisesRegex(TimeoutError, "within 10 seconds"):
                while True:
                    found.append(wait.seconds())
            self.assertGreater(min(found), 0.0)
