"""``logd bench beside``: some of its kinds run for a moment; the figures do not matter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.python_process import start_python
from tests.integration.peers import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
LOGD = [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')"]
SHORT = "--count 10 --rounds 1 --seconds 0.1 --one-by-one 2 --old-mb 3 --gb 0.001 --json"


class BesideTests(SynchronousTestCase):
    """Five kinds, side by side."""

    def test_each_kind_reports_and_leaves_no_file(self) -> None:
        """The figures must exist and be positive; a benchmark that leaves gigabytes behind fills a disk."""
        folder = Path(self.mktemp())
        folder.mkdir()
        kinds = ["cold", "half", "slow-disk", "segments", "memory"]
        processes = [
            start_python(
                [*LOGD, "bench", "beside", kind, *SHORT.split(), "--folder", str(folder)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            for kind in kinds
        ]
        results: dict[str, dict[str, Any]] = {}
        for kind, process in zip(kinds, processes, strict=True):
            self.addCleanup(process.kill)
            output, errors = process.communicate(timeout=2 * PATIENCE)
            self.assertEqual(process.returncode, 0, (kind, errors))
            results[kind] = json.loads(output)
        self.assertEqual(list(folder.iterdir()), [])
        for kind in kinds[:-1]:
            result = results[kind]
            self.assertEqual((result["what"], result["rounds"]), (kind, 1))
            for name, ratio in result["ratios"].items():
                self.assertGreater(ratio, 0, (kind, name))
        # The one figure that is certain: with a disk that takes a second, a message takes one.
        self.assertGreater(results["slow-disk"]["beside"]["delivered_ms_median"], 1000)
        self.assertGreater(results["memory"]["passed_megabytes"], 1)
