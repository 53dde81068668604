"""Tests of logd.config.reference, which writes the page about settings."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.config.reference import page
from logd.config.sources import ROWS

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "configuration.md"


class ReferenceTests(SynchronousTestCase):
    """docs/configuration.md against the code."""

    def test_the_page_is_current(self) -> None:
        """``make docs`` writes it anew."""
        self.assertEqual(PAGE.read_text(encoding="utf-8"), page())

    def test_every_setting_has_a_full_line(self) -> None:
        """A line has four cells, and an empty one would hide what the setting does."""
        lines = page().splitlines()
        for name in ROWS:
            (line,) = [line for line in lines if line.startswith(f"| `{name}` |")]
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            self.assertEqual((len(cells), "" in cells), (4, False), line)
