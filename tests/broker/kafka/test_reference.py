"""Tests of logd.broker.kafka.reference, which writes the tables of docs/kafka.md."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.broker.kafka.reference import page

PAGE = Path(__file__).resolve().parents[3] / "docs" / "kafka.md"


class ReferenceTests(SynchronousTestCase):
    """The tables."""

    def test_the_page_is_up_to_date(self) -> None:
        """It has the requests and settings of the code: ``make docs`` writes them anew."""
        text = PAGE.read_text(encoding="utf-8")
        self.assertEqual(page(text), text)

    def test_another_table_is_written_anew(self) -> None:
        """The text between the comments goes, and nothing else."""
        text = PAGE.read_text(encoding="utf-8")
        row = "| Produce | 0 | 0-8 |\n"
        self.assertIn(row, text)
        self.assertEqual(page(text.replace(row, "| Produce | 0 | 3-99 |\n")), text)

    def test_a_page_without_a_place_for_a_table(self) -> None:
        """It is refused."""
        error = self.assertRaises(ValueError, page, "# Clients\n")
        self.assertIn("has no place in the page", str(error))
