"""Tests that docs/design/finding-files.md names files that exist, and what a reader finds in them."""

from __future__ import annotations

import re

from twisted.trial.unittest import SynchronousTestCase

from tests.documentation.pages import ROOT

PAGE = ROOT / "docs" / "design" / "finding-files.md"
_ROW = re.compile(r"^\| (\d+) \| (.+\?) \| (.+) \| (.+) \|$", re.M)
_QUOTED = re.compile(r"`([^`]+)`")


class FindingFilesTests(SynchronousTestCase):
    """The page's table: a question, its files, and the names to begin at."""

    def setUp(self) -> None:
        """Read the table."""
        self.rows = _ROW.findall(PAGE.read_text(encoding="utf-8"))

    def test_the_questions_are_counted_from_one(self) -> None:
        """A row that the pattern does not fit would not be tested at all."""
        self.assertEqual([int(number) for number, *_ in self.rows], list(range(1, 32)))

    def test_each_answer_is_a_file_that_defines_what_it_names(self) -> None:
        """A file or name that is moved is moved in the answer too."""
        wrong: list[str] = []
        for number, _, files, names in self.rows:
            paths = [ROOT / "logd" / path for path in _QUOTED.findall(files)]
            wrong.extend(f"{number}: {path.relative_to(ROOT)}" for path in paths if not path.is_file())
            text = "\n".join(path.read_text(encoding="utf-8") for path in paths if path.is_file())
            for name in _QUOTED.findall(names):
                if not re.search(rf"^ *(?:async )?(?:class |def )?{name}\b(?:[(\[:]| = )", text, re.M):
                    wrong.append(f"{number}: {name}")
            self.assertTrue(paths and _QUOTED.findall(names), number)
        self.assertEqual(wrong, [])
