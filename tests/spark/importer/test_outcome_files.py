"""Tests of the files that an import leaves for machines: the report, and the metrics of node_exporter."""

from __future__ import annotations

import json
import os
import sys
from io import StringIO
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.spark.outcome_files import OutcomeFiles
from logd.errors import ConfigurationError
from logd.spark.importer.errors import ImportFailed
from logd.spark.importer.import_plan import Plan, PlannedRange
from logd.spark.importer.report import ImportReport
from logd.spark.importer.targets.offsets import Loaded, Lost
from tests.spark.importer.runs import A0

DONE = ImportReport(
    "/data",
    Plan((PlannedRange(A0, 0, 100),), (Lost(A0, 0, 5, "why"),), {A0: 100}, {}),
    run=7,
    uuid="u",
    loaded=(Loaded(A0, 0, 100, 9, 90, 2),),
)
NOTHING = ImportReport("/data", Plan((), (), {A0: 100}, {}))


class OutcomeFilesTests(SynchronousTestCase):
    """A report and metrics in a folder of their own."""

    def setUp(self) -> None:
        """Make the folder and a clock."""
        self.folder = Path(os.path.abspath(self.mktemp()))
        self.folder.mkdir()
        self.now = 1_320_969_600.0

    def files(self, to: str = '/data/"a"\\b') -> OutcomeFiles:
        """Return the files of one import."""
        return OutcomeFiles(to, str(self.folder / "r.json"), str(self.folder / "m.prom"), lambda: self.now)

    def values(self) -> dict[str, float]:
        """Return the metrics, read by Prometheus' own parser, without their common beginning."""
        found = {}
        for family in text_string_to_metric_families((self.folder / "m.prom").read_text()):
            self.assertEqual((family.type, bool(family.documentation)), ("gauge", True))
            for sample in family.samples:
                self.assertEqual((sample.labels, sample.timestamp), ({"target": '/data/"a"\\b'}, None))
                found[sample.name.removeprefix("logd_import_")] = sample.value
        return found

    def test_a_success_is_written_into_both(self) -> None:
        """Names and units are those of Prometheus; nothing else stays in the folder."""
        files = self.files()
        self.now += 30
        files.succeeded(DONE.to_json(), DONE)
        self.assertEqual(
            self.values(),
            {
                "success": 1,
                "last_end_timestamp_seconds": self.now,
                "last_success_timestamp_seconds": self.now,
                "duration_seconds": 30,
                "messages": 9,
                "log_bytes": 90,
                "gap_bytes": 10,
                "quarantined_messages": 2,
                "lost_ranges": 1,
                "run": 7,
            },
        )
        value = json.loads((self.folder / "r.json").read_text())
        self.assertEqual((value["run"], value["quarantined"], value["error"]), (7, 2, None))
        self.assertEqual(value["partitions"][0]["end"], 100)
        self.assertEqual(sorted(os.listdir(self.folder)), ["m.prom", "r.json"])

    def test_a_failure_keeps_the_time_of_the_last_success(self) -> None:
        """An alert on the age of that works; the report has the error, also one by a signal."""
        self.files().succeeded(DONE.to_json(), DONE)
        self.now += 3600
        for error in (ImportFailed("no room"), KeyboardInterrupt()):
            with self.assertRaises(type(error)), self.files().told_of_failure():
                raise error
            values = self.values()
            self.assertEqual(
                (values["success"], values["last_success_timestamp_seconds"], values["run"]), (0, self.now - 3600, 7)
            )
            self.assertNotIn("messages", values)
            found = json.loads((self.folder / "r.json").read_text())["error"]
            self.assertEqual(found["kind"], type(error).__name__)
        self.now += 3600
        self.files().succeeded(NOTHING.to_json(), NOTHING)
        values = self.values()
        self.assertEqual((values["success"], values["messages"], values["run"]), (1, 0, 7))
        self.assertEqual(values["last_success_timestamp_seconds"], self.now)

    def test_a_file_that_cannot_be_written_does_not_fail_the_import(self) -> None:
        """The data is visible by then; a notice names the file."""
        files = self.files()
        (self.folder / "m.prom").mkdir()
        self.patch(os, "replace", self.full)
        errors = StringIO()
        self.patch(sys, "stderr", errors)
        files.succeeded(DONE.to_json(), DONE)
        self.assertEqual(os.listdir(self.folder), ["m.prom"])
        self.assertIn("r.json was not written: No space left on device", errors.getvalue())

    def full(self, source: str, target: str) -> None:
        """Fail as a full disk does."""
        raise OSError(28, "No space left on device", source)

    def test_paths_that_cannot_be_meant_are_refused_before_the_import(self) -> None:
        """The collector passes over other names, and a folder that is missing is a mistake."""
        with self.assertRaisesRegex(ConfigurationError, "does not end in .prom"):
            OutcomeFiles("/data", metrics="/tmp/metrics.txt")
        with self.assertRaisesRegex(ConfigurationError, "--report '/nowhere/x': there is no such folder"):
            OutcomeFiles("/data", report="/nowhere/x")
