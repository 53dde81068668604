"""Tests of logd.cli.audit.audit: what is said where there is nothing to compare."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.cli.audit.audit import nothing_found


class NothingFoundTests(SynchronousTestCase):
    """``nothing_found``."""

    def test_silence_would_look_like_success(self) -> None:
        """A topic whose name is misspelt, or that no audited client used, is named with the remedy."""
        self.assertEqual(
            nothing_found(("orders", "clicks")),
            "topic _audit has no counts of clicks, orders in these windows: are their producers audited (--audit, "
            "audit=True)?",
        )
        self.assertIn("no counts of any topic in", nothing_found(()))
