"""Tests of counts with their nouns."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.plurals import counted


class CountedTests(SynchronousTestCase):
    """``counted``."""

    def test_noun(self) -> None:
        """One alone has the singular; zero and all other numbers have the plural."""
        self.assertEqual(
            [counted(number, "file") for number in (0, 1, 2, 12_345)], ["0 files", "1 file", "2 files", "12,345 files"]
        )

    def test_plural(self) -> None:
        """A plural that is not the noun with an s is given."""
        self.assertEqual(
            [counted(number, "entry", "entries") for number in (0, 1, 2)], ["0 entries", "1 entry", "2 entries"]
        )
