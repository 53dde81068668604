"""Tests of ``logd import --compact`` that is killed at every step."""

from __future__ import annotations

import contextlib
import os
import shutil

from logd.spark.importer.errors import RunLost
from logd.spark.importer.targets.layout import QUARANTINE
from logd.spark.importer.targets.local import LocalTarget
from logd.spark.importer.targets.swapping import finish
from logd.spark.importer.targets.target import last_run, read_run
from tests.spark.importer.compaction.compactions import KilledTestCase, Unreadable, lines_of, runs_at, with_quarantine


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
