"""Tests of the page about settings."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.config.reference import page
from logd.config.sources import ROWS

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "configuration.md"


class ReferenceTests(SynchronousTestCase):
    """docs/configuration.md and the code say the same."""

    def test_page_is_current(self) -> None:
        """The page is the one that the table makes; ``make docs`` writes it anew."""
        self.assertEqual(PAGE.read_text(encoding="utf-8"), page())

    def test_every_setting_is_there(self) -> None:
        """Each setting has a line of four cells, none of them empty."""
        lines = page().splitlines()
        for name in ROWS:
            (line,) = [line for line in lines if line.startswith(f"| `{name}` |")]
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            self.assertEqual((len(cells), "" in cells), (4, False), line)
