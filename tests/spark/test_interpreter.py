"""Tests of logd.spark.interpreter: the program by which Spark starts its workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.spark.interpreter import worker_python


class InterpreterTests(SynchronousTestCase):
    """``worker_python``."""

    def test_the_program_runs_this_interpreter_with_its_path(self) -> None:
        """PYTHONPATH in the environment of a worker must not replace it."""
        folder = os.path.abspath(self.mktemp())
        program = worker_python("/a folder:/it's", folder)
        self.assertEqual(program, worker_python("/a folder:/it's", folder))
        self.assertNotEqual(program, worker_python("/another", folder))
        ask = "import sys; print(sys.executable, sys.argv[1], [p for p in sys.path if 'zip' in p or p[:3] == '/a '])"
        told = subprocess.run(
            [program, "-c", ask, "two words"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": "/some.zip"},
        )
        ours = [path for path in sys.path if "zip" in path and path.startswith(sys.base_prefix)]
        self.assertEqual(told.stdout, f"{sys.executable} two words {['/a folder', *ours]}\n")

    def test_a_program_cut_short_is_made_again(self) -> None:
        """A loss of power may leave an empty file."""
        folder = os.path.abspath(self.mktemp())
        program = Path(worker_python("/a", folder))
        whole = program.read_text()
        program.write_text("")
        self.assertEqual(worker_python("/a", folder), str(program))
        self.assertEqual(program.read_text(), whole)

    def test_the_interpreter_itself_is_used_without_a_place(self) -> None:
        """The folder for the program cannot be written."""
        folder = Path(self.mktemp())
        folder.write_text("a file")
        self.assertEqual(worker_python("", str(folder / "below")), sys.executable)
