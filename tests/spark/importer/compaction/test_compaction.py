"""Tests of ``logd import --compact`` without Spark: the choice of runs, the merged offsets, and kills at every step."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import ConfigurationError
from logd.spark.importer.compaction.compactor import CompactionSettings, Compactor
from logd.spark.importer.errors import ImportFailed, RunLost, TargetError
from logd.spark.importer.targets.chain import check_chain
from logd.spark.importer.targets.layout import OFFSETS
from logd.spark.importer.targets.local import LocalTarget
from logd.spark.importer.targets.merging import finished_spans, merge
from logd.spark.importer.targets.offsets import Lost, RunOffsets
from logd.spark.importer.targets.swapping import finish
from logd.spark.importer.targets.target import last_run
from logd.spark.importer.targets.verifying import verify
from tests.spark.importer.compaction.compactions import (
    HOUR,
    MIDNIGHT,
    CompactionTestCase,
    lines_of,
    runs_at,
    with_quarantine,
)
from tests.spark.importer.runs import A0, run_of


class ChoosingTests(SynchronousTestCase):
    """The runs that are merged."""

    def spans(self, runs: Sequence[RunOffsets], unit: str = "date", hours: float = 30) -> list[list[int]]:
        """Return the numbers of the chosen runs, so many hours after midnight."""
        found = finished_spans(runs, unit, MIDNIGHT + int(hours * HOUR))
        return [[run.run for run in span] for span in found]

    def test_the_runs_of_a_finished_date_become_one(self) -> None:
        """The present date is not over, and a run alone stays as it is."""
        self.assertEqual(self.spans(runs_at(1, 2, 3, 24, 25, 26)), [[1, 2, 3]])
        self.assertEqual(self.spans(runs_at(1, 2, 3, 24, 25, 26), hours=48), [[1, 2, 3], [4, 5]])
        self.assertEqual(self.spans(runs_at(1, 25, 26)), [])
        self.assertEqual(self.spans([]), [])

    def test_the_runs_of_a_finished_hour_become_one(self) -> None:
        """Hours of different dates are different."""
        runs = runs_at(1, 1, 2, 2, 26, 26)
        self.assertEqual(self.spans(runs, "hour", 2.5), [[1, 2]])
        self.assertEqual(self.spans(runs, "hour"), [[1, 2], [3, 4]])

    def test_the_last_run_stays(self) -> None:
        """An import that is planning now reads it, and is not kept out on every file system."""
        self.assertEqual(self.spans(runs_at(1, 2, 3)), [[1, 2]])

    def test_a_loss_and_another_shape_begin_a_group(self) -> None:
        """Before and behind a loss the same id may be two messages; files of other folders are another table."""
        runs = runs_at(1, 2, 3, 4, 5, 6, 24)
        runs[2] = evolve(runs[2], lost=(Lost(A0, 200, 200, "why"),))
        runs[4] = evolve(runs[4], data={"format": "parquet", "partition_by": []})
        runs[5] = evolve(runs[5], data={"format": "parquet", "partition_by": []})
        self.assertEqual(self.spans(runs), [[1, 2], [3, 4], [5, 6]])

    def test_a_run_with_a_quarantine_is_merged_like_others(self) -> None:
        """The counts of both are added."""
        runs = [with_quarantine(run) for run in runs_at(1, 2, 3, 4, 5, 24)]
        self.assertEqual(self.spans(runs), [[1, 2, 3, 4, 5]])
        merged = merge(runs[:5])
        self.assertEqual((merged.messages, merged.quarantined), (55, 6))


class MergingTests(SynchronousTestCase):
    """The offsets of a merged run."""

    def test_the_merged_run_takes_the_place_of_its_runs(self) -> None:
        """The chain before and behind it holds, and so after a second merging."""
        runs = runs_at(1, 2, 3, 4, 5)
        merged = merge(runs[1:3])
        self.assertEqual((merged.first_run, merged.run, merged.uuid), (2, 3, runs[2].uuid))
        self.assertEqual([(each.start, each.end, each.messages) for each in merged.loaded], [(100, 300, 20)])
        check_chain([runs[0], merged, *runs[3:]])
        again = merge([runs[0], merged, runs[3]])
        check_chain([again, runs[4]])
        self.assertEqual([each.run for each in again.merged], [1, 2, 3, 4])
        self.assertEqual(sum(each.messages for each in again.merged), again.messages)
        self.assertEqual(RunOffsets.from_bytes(again.to_bytes(), "x"), again)

    def test_a_missing_run_is_named_beside_a_merged_one(self) -> None:
        """The number is that of the missing run, not of a merged one."""
        runs = runs_at(1, 2, 3, 4, 5)
        for chain, missing in (([runs[0], merge(runs[2:4])], 2), ([merge(runs[:2]), runs[3]], 3)):
            with self.assertRaisesRegex(TargetError, f"run={missing} is missing"):
                check_chain(chain)

    def test_runs_that_do_not_follow_one_another_are_not_merged(self) -> None:
        """The gap would be hidden for ever."""
        runs = runs_at(1, 2, 3)
        with self.assertRaisesRegex(TargetError, "run=2 is missing"):
            merge([runs[0], runs[2]])


class CompactorTests(CompactionTestCase):
    """Whole compactions."""

    def test_the_runs_of_a_date_are_merged(self) -> None:
        """Readers see the same messages, imports go on behind the last run, and what was hidden is kept."""
        before = self.seen()
        report = self.compact()
        self.assertEqual([(each.first_run, each.run, each.runs) for each in report.groups], [(1, 4, 4)])
        self.assertIn("merged 4 runs of", report.sentence())
        self.assertEqual(json.loads(json.dumps(report.to_json()))["groups"][0]["files_after"], 1)
        self.assertEqual((self.names(), self.seen()), (["run=4", "run=5"], before))
        self.assertEqual(lines_of(self.root / "run=4"), before[:-10])
        target = LocalTarget(str(self.root))
        last = last_run(target)
        assert last is not None
        self.assertEqual(last.run, 5)
        self.assertEqual((self.root / "run=4" / "_merged" / "run=2" / "_quarantine" / "part-0").read_text(), "bad")
        self.assertEqual(sorted(os.listdir(self.root)), ["_lock", "_merged", "_staging", "run=4", "run=5"])
        self.assertEqual(os.listdir(self.root / "_merged") + os.listdir(self.root / "_staging"), [])
        self.make(evolve(run_of(6, {A0: (500, 600)}, last), began_ms=MIDNIGHT + 49 * HOUR))
        self.assertEqual(self.compact(MIDNIGHT + 72 * HOUR).sentence(), f"{target.location} has no runs to merge")

    def test_a_dry_run_changes_nothing(self) -> None:
        """It needs neither the lock nor Spark."""
        report = self.compact(dry_run=True)
        self.assertIn("would merge 4 runs", report.sentence())
        self.assertEqual((self.rewriter.calls, len(self.names())), ([], 5))

    def test_large_groups_are_written_by_several_tasks(self) -> None:
        """Each writes so many bytes of log."""
        self.compact(file_bytes=200)
        self.assertEqual(self.rewriter.calls, [(4, 3)])

    def test_a_failed_rewriting_changes_nothing(self) -> None:
        """Its staged files are removed."""

        def fail() -> None:
            raise ImportFailed("the files differ")

        self.rewriter.meanwhile = fail
        before = self.seen()
        with self.assertRaisesRegex(ImportFailed, "differ"):
            self.compact()
        self.assertEqual((self.seen(), os.listdir(self.root / "_staging")), (before, []))

    def test_an_import_and_a_compaction_keep_each_other_out(self) -> None:
        """On one machine, by the lock."""
        target = LocalTarget(str(self.root))
        target.acquire()
        with self.assertRaisesRegex(RunLost, "is running"):
            self.compact()
        target.close()

    def test_lines_of_json_and_unknown_units_are_refused(self) -> None:
        """The error says what to do."""
        for number in range(1, 6):
            path = self.root / f"run={number}" / OFFSETS
            path.write_bytes(path.read_bytes().replace(b'"parquet"', b'"json"'))
        with self.assertRaisesRegex(TargetError, "only those of Parquet"):
            self.compact()
        with self.assertRaisesRegex(ConfigurationError, "'week' is not allowed; allowed is date, hour"):
            CompactionSettings(to="x", unit="week")
        with self.assertRaisesRegex(ConfigurationError, "rewrite_data_files"):
            CompactionSettings(to="iceberg:///x/a.b")

    def test_a_merged_run_that_does_not_fit_is_undone(self) -> None:
        """Another compaction merged some of its runs meanwhile, on a file system without locks."""
        stale = merge(runs_at(1, 2, 3, 23))

        self.compact()
        before = self.seen()
        (self.root / "_compacted").mkdir()
        (self.root / "_compacted" / "part-0").write_text("twice")
        (self.root / "_compacted" / OFFSETS).write_bytes(evolve(stale, merged=stale.merged[1:]).to_bytes())
        self.assertIsNone(finish(LocalTarget(str(self.root))))
        self.assertEqual((self.seen(), (self.root / "_compacted").exists()), (before, False))

    def test_an_undoing_that_was_killed_is_no_running_compaction(self) -> None:
        """Removing files takes its time, and what has lost its offsets could not be told from a decided run."""
        stale = evolve(merge(runs_at(1, 2, 3, 23)), uuid="of another run")
        (self.root / "_compacted").mkdir()
        (self.root / "_compacted" / "part-0").write_text("twice")
        (self.root / "_compacted" / OFFSETS).write_bytes(stale.to_bytes())

        def killed(folder: Path) -> None:
            (folder / OFFSETS).unlink()
            raise KeyboardInterrupt

        before = self.seen()
        with mock.patch("shutil.rmtree", killed), contextlib.suppress(KeyboardInterrupt):
            finish(LocalTarget(str(self.root)))
        self.assertEqual(len(self.compact().groups), 1)
        self.assertEqual((self.seen(), os.listdir(self.root / "_staging")), (before, []))

    def test_an_empty_notice_goes(self) -> None:
        """It is what stays of one whose removal was killed."""
        (self.root / "run=0").mkdir()
        finish(LocalTarget(str(self.root)))
        self.assertFalse((self.root / "run=0").exists())

    def test_a_directory_that_does_not_exist(self) -> None:
        """It is neither made nor called a target in order."""
        missing = str(self.root / "misspelt")
        with self.assertRaisesRegex(TargetError, "misspelt: there is no such directory"):
            Compactor(CompactionSettings(to=missing), self.rewriter).run()
        with self.assertRaisesRegex(TargetError, "misspelt: there is no such directory"):
            verify(missing)
        self.assertFalse(os.path.exists(missing))
