"""Tests of ``logd bench coordination``, and of its figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.bench.coordination import Compared, Figures
from logd.testing.processes.zookeeper import missing

ROOT = Path(__file__).resolve().parents[3]


class BenchCoordinationTests(SynchronousTestCase):
    """The command, once for real, and its figures."""

    def test_a_short_run_has_figures_of_both_servers(self) -> None:
        """Without Java, the result has the reason and the embedded server alone."""
        command = [sys.executable, "-c", "from logd.cli.main import main; main()", "bench", "coordination"]
        run = subprocess.run(
            [*command, "--rounds", "1", "--seconds", "0.3", "--json", "--folder", "."],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            timeout=600,
            check=False,
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        result = json.loads(run.stdout)
        figures = [result["embedded"]] + ([] if missing() else [result["real"]])
        for each in figures:
            loads = ["reads_10_clients", "reads_1_client", "writes_10_clients", "writes_1_client"]
            own = ["own_client_reads", "own_client_writes"]
            self.assertEqual(sorted(each["rates"]), own + loads)
            self.assertEqual(sorted(each["processor"]), loads)
            self.assertTrue(all(rate > 0 for rate in each["rates"].values()))
            self.assertGreater(each["resident_megabytes"], 10)
        self.assertEqual(result["missing"], missing())
        self.assertEqual(bool(result["ratios"]), not missing())

    def test_ratios_are_ours_to_theirs(self) -> None:
        """Without a figure of theirs there is no ratio."""
        ours = Figures({"reads_1_client": 100.0}, 0.5, 30.0)
        compared = Compared("coordination", ours, Figures({"reads_1_client": 200.0}, 1.0, 60.0), "")
        halves = {"reads_1_client": 0.5, "start_seconds": 0.5, "resident_megabytes": 0.5}
        self.assertEqual(compared.ratios, halves)
        self.assertEqual(Compared("coordination", ours, None, "no Java").ratios, {})
