"""Runs the programs of docs/testing.md as they stand on the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).resolve().parents[2]


class DocumentedExampleTests(SynchronousTestCase):
    """The two examples, each in a file and a folder of its own: a reader who copies one gets a test that passes."""

    def setUp(self) -> None:
        """Take the two programs from the page."""
        page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
        self.pytest, self.trial = (part.partition("```")[0] for part in re.split(r"```python \S+\n", page)[1:])

    def test_the_example_in_memory_passes_under_pytest(self) -> None:
        """It is run by pytest's command line, without the cache that would be left in a reader's folder."""
        self.check(self.pytest, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_example.py")

    def test_the_example_on_loopback_passes_under_trial(self) -> None:
        """It runs on the real reactor and real sockets."""
        self.check(self.trial, "-m", "twisted.trial", "test_example")

    def check(self, program: str, *command: str) -> None:
        """Run a program in a file of its own, and check that its runner reports a passed test."""
        folder = Path(self.mktemp())
        folder.mkdir()
        (folder / "test_example.py").write_text(program, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ran = subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            timeout=600,
            check=False,
        )
        self.assertEqual(ran.returncode, 0, (ran.stdout + ran.stderr).decode())
        self.assertIn(b"passed" if "pytest" in command else b"PASSED", ran.stdout + ran.stderr)
