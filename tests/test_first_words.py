"""Tests that docstrings and comments begin with their subject: a verb or a thing, never a question word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).resolve().parent.parent
#: A line that begins a docstring or is a comment, with such a word.
_LINE = re.compile(r'^[ \t]*("""|#:? )((?:What|How|Who|Whose|Where|Whether|Which|Why)\b.*)', re.MULTILINE)


def questions(text: str) -> Iterator[str]:
    """Yield the first lines of the docstrings and comments of a module that begin with a question word."""
    for found in _LINE.finditer(text):
        before = text[: max(found.start() - 1, 0)].rpartition("\n")[2]
        if found[1] == '"""' or not before.lstrip().startswith("#"):  # else it goes on with a comment
            yield found[2]


class FirstWordsTests(SynchronousTestCase):
    """The rule of CONTRIBUTING.md, on the project as it is."""

    def test_a_module_with_questions(self) -> None:
        """Docstrings of every kind count, and first lines of comments."""
        text = '"""What it does."""\nclass A:\n    """How."""\n\n    #: Whether it is.\n    a = 1  # Who\n'
        self.assertEqual(list(questions(text)), ['What it does."""', 'How."""', "Whether it is."])
        self.assertEqual(list(questions('"""Return what it is."""\n# A thing\n# Which is one.\na = 1\n')), [])
        self.assertEqual(list(questions("# A heading\n\n# How it is\n")), ["How it is"])

    def test_the_project_begins_with_subjects(self) -> None:
        """A reader then sees the thing first."""
        folders = ("logd", "spark", "demo", "tests")
        paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
        found = [f"{path.relative_to(ROOT)}: {line}" for path in paths for line in questions(path.read_text())]
        self.assertEqual(found, [], "\n" + "\n".join(found))
