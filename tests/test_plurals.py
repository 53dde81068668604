"""Tests of counts with their nouns."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.plurals import counted


class CountedTests(SynchronousTestCase):
    """``counted``."""

    def test_only_one_has_the_singular(self) -> None:
        """Zero and all other numbers have the plural, and digits are grouped."""
        self.assertEqual(
            [counted(number, "file") for number in (0, 1, 2, 12_345)], ["0 files", "1 file", "2 files", "12,345 files"]
        )

    def test_an_irregular_plural_is_given(self) -> None:
        """The default is the noun with an s."""
        self.assertEqual(
            [counted(number, "entry", "entries") for number in (0, 1, 2)], ["0 entries", "1 entry", "2 entries"]
        )
