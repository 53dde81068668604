"""The programs of docs/testing.md are run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).resolve().parents[2]


class DocumentedTests(SynchronousTestCase):
    """The two examples."""

    def setUp(self) -> None:
        """Take the programs from the page."""
        page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
        self.pytest, self.trial = (part.partition("```")[0] for part in re.split(r"```python \S+\n", page)[1:])

    def test_pytest(self) -> None:
        """The one in memory passes under pytest."""
        self.check(self.pytest, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_example.py")

    def test_trial(self) -> None:
        """The one on loopback passes under trial."""
        self.check(self.trial, "-m", "twisted.trial", "test_example")

    def check(self, program: str, *command: str) -> None:
        """Run a program in a file of its own."""
        folder = Path(self.mktemp())
        folder.mkdir()
        (folder / "test_example.py").write_text(program, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ran = subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            timeout=120,
            check=False,
        )
        self.assertEqual(ran.returncode, 0, (ran.stdout + ran.stderr).decode())
        self.assertIn(b"passed" if "pytest" in command else b"PASSED", ran.stdout + ran.stderr)
