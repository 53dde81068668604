"""Tests of ``logd import --compact`` without Spark: the choice of runs, the merged offsets, and kills at every step."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import define, evolve, field
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import ConfigurationError
from logd.log.disk.local_files import LocalFiles
from logd.spark.importer.compaction.compaction_report import CompactionReport
from logd.spark.importer.compaction.compactor import CompactionSettings, Compactor, Rewritten
from logd.spark.importer.errors import ImportFailed, RunLost, TargetError
from logd.spark.importer.targets.chain import check_chain
from logd.spark.importer.targets.layout import OFFSETS, QUARANTINE, run_name
from logd.spark.importer.targets.local import LocalTarget
from logd.spark.importer.targets.merging import finished_spans, merge
from logd.spark.importer.targets.offsets import TYPED_FORMAT, Lost, RunOffsets
from logd.spark.importer.targets.swapping import finish
from logd.spark.importer.targets.target import Target, last_run, publish, read_run
from logd.spark.importer.targets.verifying import verify
from tests.spark.importer.runs import A0, A1, run_of

HOUR = 3_600_000
#: 2011-11-11T00:00:00Z in ms.
MIDNIGHT = 1_320_969_600_000


def runs_at(*hours: int) -> list[RunOffsets]:
    """Return runs that follow one another and begin at these hours after midnight; each loads ten messages."""
    made: list[RunOffsets] = []
    for number, hour in enumerate(hours, 1):
        before = made[-1] if made else None
        ranges = (
            {A0: (number * 100 - 100, number * 100), A1: (0, 50)}
            if number == 1
            else {A0: (number * 100 - 100, number * 100)}
        )
        made.append(evolve(run_of(number, ranges, before), began_ms=MIDNIGHT + hour * HOUR))
    return made


def with_quarantine(run: RunOffsets) -> RunOffsets:
    """Return a run of typed values with one message of each range in quarantine."""
    return evolve(run, loaded=tuple(evolve(each, quarantined=1) for each in run.loaded), format=TYPED_FORMAT)


@define
class FakeRewriter:
    """A rewriter of files with a line for each message; ``meanwhile`` is called at its end."""

    meanwhile: Callable[[], object] = lambda: None
    calls: list[tuple[int, int]] = field(factory=list)

    def rewrite(self, target: Target, runs: Sequence[RunOffsets], staged: str, tasks: int) -> Rewritten:
        """Write the lines of all runs into one file."""
        self.calls.append((len(runs), tasks))
        folder = Path(target.staging(staged).removeprefix("file://"))
        (folder / "topic=a").mkdir(parents=True)
        lines = [line for run in runs for line in lines_of(Path(target.location, run_name(run.run)))]
        (folder / "topic=a" / "part-merged").write_text("".join(f"{line}\n" for line in sorted(lines)))
        if any(run.quarantined for run in runs):
            (folder / QUARANTINE).mkdir()
            places = [Path(target.location, run_name(run.run), QUARANTINE) for run in runs]
            wrong = [line for place in places for line in lines_of(place)]
            (folder / QUARANTINE / "part-merged").write_text("".join(f"{line}\n" for line in wrong))
        self.meanwhile()
        return Rewritten(len(runs), 1)

    def target(self, location: str) -> Target:
        """Fail, since these targets are local folders."""
        raise NotImplementedError


class DiesAt(LocalFiles):
    """A file system under which this process is killed before, or after, the n-th rename or sync of a folder."""

    def __init__(self, step: int) -> None:
        self.left = step

    def rename(self, source: str, target: str) -> None:
        """Die, or rename."""
        self._step()
        super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        """Die, or sync."""
        self._step()
        super().sync_directory(path)

    def _step(self) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


class Unreadable(Exception):
    """A reader meets the notice of a compaction, and fails."""


def lines_of(folder: Path) -> list[str]:
    """Return the lines of the data files that readers see in a folder."""
    found: list[str] = []
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part[0] in "_." for part in parts):
            found += path.read_text().splitlines()
    return found


class CompactionTestCase(SynchronousTestCase):
    """A target with four runs of one date and one of the next."""

    def setUp(self) -> None:
        """Write the runs, with what a colleague's tool hid beside the data of the second."""
        self.root = Path(os.path.abspath(self.mktemp()))
        self.rewriter = FakeRewriter()
        self.make(*runs_at(1, 2, 3, 23, 24))
        (self.root / "run=2" / "_quarantine").mkdir()
        (self.root / "run=2" / "_quarantine" / "part-0").write_text("bad")

    def make(self, *runs: RunOffsets) -> None:
        """Publish runs into the target."""
        target = LocalTarget(str(self.root))
        target.acquire()
        for run in runs:
            folder = Path(target.staging(run.uuid).removeprefix("file://"), "topic=a")
            folder.mkdir(parents=True)
            sound = range(run.quarantined, run.messages)
            (folder / "part-0").write_text("".join(f"{run.run} {number}\n" for number in sound))
            if run.quarantined:
                (folder.parent / QUARANTINE).mkdir()
                (folder.parent / QUARANTINE / "part-0").write_text(f"wrong {run.run}\n")
            publish(target, run)
        target.close()

    def compact(
        self, now: int = MIDNIGHT + 30 * HOUR, target: LocalTarget | None = None, **changes: object
    ) -> CompactionReport:
        """Compact the target at a time."""
        settings = evolve(CompactionSettings(to=str(self.root)), **changes)  # type: ignore[arg-type]
        compactor = Compactor(settings, self.rewriter, clock=lambda: now / 1000)
        if target is not None:
            self.patch(Compactor, "target", lambda _: target)
        return compactor.run()

    def seen(self) -> list[str]:
        """Return what a reader sees; raises Unreadable if that is not to be read now."""
        if (self.root / "run=0").exists():
            raise Unreadable
        return sorted(lines_of(self.root))

    def names(self) -> list[str]:
        """Return the names that readers see."""
        return sorted(name for name in os.listdir(self.root) if name[0] not in "_.")


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

    def test_a_directory_that_does_not_exist(self) -> None:
        """It is neither made nor called a target in order."""
        missing = str(self.root / "misspelt")
        with self.assertRaisesRegex(TargetError, "misspelt: there is no such directory"):
            Compactor(CompactionSettings(to=missing), self.rewriter).run()
        with self.assertRaisesRegex(TargetError, "misspelt: there is no such directory"):
            verify(missing)
        self.assertFalse(os.path.exists(missing))


class KilledTestCase(CompactionTestCase):
    """A test that kills compactions."""

    def killed_at(self, step: int) -> bool:
        """Compact in another process that dies at this step; return False if it came to its end."""
        child = os.fork()
        if not child:
            try:
                self.compact(target=LocalTarget(str(self.root), DiesAt(step)))
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        return os.WIFSIGNALED(status)


class KilledTests(KilledTestCase):
    """Compactions that are killed (SIGKILL, in a process of their own) at each of their steps."""

    def test_readers_see_all_messages_once_or_fail_at_every_step(self) -> None:
        """The next command, an import or a compaction, finishes or undoes it; a check says that it is unfinished."""
        whole = self.seen()
        steps, unreadable = 0, 0
        while True:
            steps += 1
            died = self.killed_at(steps)
            try:
                self.assertEqual(self.seen(), whole, steps)
            except Unreadable:
                unreadable += 1
                with self.assertRaisesRegex(RunLost, "run logd import or logd import --compact, which finishes it"):
                    self.compact(dry_run=True)
            target = LocalTarget(str(self.root))
            target.acquire()
            finish(target)
            last = last_run(target)
            assert last is not None and last.run == 5
            target.close()
            self.assertEqual(self.seen(), whole, steps)
            self.assertIn(self.names(), (["run=4", "run=5"], [f"run={each}" for each in range(1, 6)]))
            self.assertNotIn("_compacted", os.listdir(self.root))
            quarantined = list(self.root.glob("run=*/**/_quarantine/part-0"))
            self.assertEqual([path.read_text() for path in quarantined], ["bad"], steps)
            if not died:
                break
            self.compact()
            self.assertEqual((self.seen(), self.names()), (whole, ["run=4", "run=5"]), steps)
            shutil.rmtree(self.root)
            self.setUp()
        self.assertGreater(unreadable, 5)
        self.assertGreater(steps, 20)


class KilledWithQuarantineTests(KilledTestCase):
    """Compactions of runs with messages in quarantine, killed at each of their steps."""

    def setUp(self) -> None:
        """Write runs with typed values."""
        super().setUp()
        shutil.rmtree(self.root)
        self.make(*(with_quarantine(run) for run in runs_at(1, 2, 3, 24)))

    def wrong(self, *places: str) -> list[str]:
        """Return the lines of the quarantines at these places; raises Unreadable if they are not to be read now."""
        found = [folder for place in places for folder in self.root.glob(f"{place}/{QUARANTINE}")]
        if self.root / "run=0" / QUARANTINE in found:
            raise Unreadable
        return sorted(line for folder in found for line in lines_of(folder))

    def test_the_quarantine_is_whole_or_unreadable_at_every_step(self) -> None:
        """Those who read the quarantines alone meet the notice, too; the counts stay those of the merged run."""
        whole, wrong = self.seen(), self.wrong("run=*")
        self.assertEqual(wrong, [f"wrong {number}" for number in range(1, 5)])
        steps = 0
        died = True
        while died:
            steps += 1
            died = self.killed_at(steps)
            with contextlib.suppress(Unreadable):
                self.assertEqual(self.wrong("run=*"), wrong, steps)
            target = LocalTarget(str(self.root))
            target.acquire()
            finish(target)
            target.close()
            self.assertEqual((self.seen(), self.wrong("run=*")), (whole, wrong), steps)
            self.compact()
            self.assertEqual((self.seen(), self.wrong("run=*"), self.names()), (whole, wrong, ["run=3", "run=4"]))
            self.assertEqual(self.wrong("run=*/_merged/*"), [], steps)
            self.assertEqual(read_run(target, 3).quarantined, 4)
            shutil.rmtree(self.root)
            self.setUp()
        self.assertGreater(steps, 20)
