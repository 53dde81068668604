"""Tests of ``logd import --until`` and ``--backfill``: ranges of the past, each message once, the chain as it was."""

from __future__ import annotations

import json
import random
from typing import Any

from attrs import evolve

from logd.errors import ConfigurationError
from logd.spark.blocking.offsets import parse_offsets
from logd.spark.importer.errors import TargetError
from logd.spark.importer.report import ImportReport
from logd.spark.importer.targets.chain import check_chain
from logd.spark.importer.targets.local import LocalTarget
from logd.spark.importer.targets.merging import merge
from logd.spark.importer.targets.offsets import Loaded, RunOffsets
from logd.spark.importer.targets.target import read_run
from logd.spark.importer.targets.verifying import verify
from tests.spark.doubles import FakeLog
from tests.spark.importer.runs import A0, run_of
from tests.spark.importer.test_run import TEN, ImportTestCase


class BackfillTestCase(ImportTestCase):
    """Topic a with logs of 300 and 200 bytes of ten-byte messages."""

    def setUp(self) -> None:
        """Make the first log longer."""
        super().setUp()
        self.a.logs[0] = FakeLog(TEN + TEN + TEN)

    def between(self, start: int, until: int | None = None, **changes: Any) -> ImportReport:
        """Import from one position on, in both partitions, up to another."""
        limits = [json.dumps({"a": {"0": each, "1": each}}) if each is not None else None for each in (start, until)]
        assert limits[0] is not None
        ending = parse_offsets(limits[1], "latest") if limits[1] is not None else None
        return self.run_import(starting=parse_offsets(limits[0], "earliest"), until=ending, **changes)

    def ranges(self, report: ImportReport) -> list[tuple[int, int, int]]:
        """Return the loaded ranges."""
        return [(each.lineage.partition, each.start, each.end) for each in report.loaded]

    def runs(self) -> list[RunOffsets]:
        """Return the runs of the target."""
        target = LocalTarget(str(self.to))
        return [read_run(target, number) for number in target.runs()]


class UntilTests(BackfillTestCase):
    """Imports that end before the end."""

    def test_an_import_ends_at_the_limit_and_the_next_goes_on(self) -> None:
        """Run twice it loads nothing twice; a limit before what the target has is no loss."""
        self.assertEqual(self.ranges(self.between(50, 150)), [(0, 50, 150), (1, 50, 150)])
        self.assertIsNone(self.between(50, 150).run)
        self.assertIsNone(self.between(0, 100).run)
        self.assertEqual(self.ranges(self.run_import()), [(0, 150, 300), (1, 150, 200)])
        self.assertEqual(verify(str(self.to)).messages, 40)

    def test_a_limit_before_the_start_loads_nothing(self) -> None:
        """Nor does it fail."""
        self.assertIsNone(self.between(150, 50).run)

    def test_a_log_that_ends_before_the_target_is_still_a_loss(self) -> None:
        """The limit does not hide it."""
        self.run_import()
        self.a.logs[0] = FakeLog(TEN)
        with self.assertRaisesRegex(Exception, "ends at 100 now"):
            self.between(0, 80)

    def test_a_limit_before_the_log_s_beginning_loads_nothing(self) -> None:
        """The target goes on where the log begins, and the next import follows the run that records the loss."""
        self.between(0, 50)
        self.a.logs[0] = FakeLog(TEN + TEN, start=100)
        self.assertEqual(self.between(0, 80, accept_loss=True).plan.reached["a", 0], 100)
        self.assertEqual(self.ranges(self.run_import()), [(0, 100, 300), (1, 80, 200)])
        self.assertEqual(verify(str(self.to)).runs, 3)


class BackfillTests(BackfillTestCase):
    """Loads of the past into the target of a daily import that began later."""

    def setUp(self) -> None:
        """Import from 150 on."""
        super().setUp()
        self.between(150)

    def test_the_past_is_loaded_once_and_the_chain_goes_on(self) -> None:
        """Positions stay; a second backfill loads only what is still missing, and the daily import what is new."""
        report = self.between(40, 100, backfill=True)
        self.assertEqual((report.run, self.ranges(report)), (2, [(0, 40, 100), (1, 40, 100)]))
        self.assertEqual(self.runs()[1].positions, self.runs()[0].positions)
        self.assertIsNone(self.between(40, 100, backfill=True).run)
        self.a.logs[0].data += TEN
        self.assertEqual(self.ranges(self.run_import()), [(0, 300, 400)])
        report = self.between(0, None, backfill=True)
        self.assertEqual(self.ranges(report), [(0, 0, 40), (1, 0, 40)])
        self.assertIn("1 more ranges are missing: run the backfill again", report.notices[0])
        self.assertEqual(self.ranges(self.between(0, None, backfill=True)), [(0, 100, 150), (1, 100, 150)])
        self.assertEqual(verify(str(self.to)).messages, 60)
        merged = merge(self.runs()[:4])
        self.assertEqual((merged.messages, len(merged.backfilled)), (sum(run.messages for run in self.runs()[:4]), 4))
        check_chain([merged, self.runs()[4]])
        self.assertEqual(RunOffsets.from_bytes(merged.to_bytes(), "x"), merged)

    def test_random_backfills_load_each_message_once(self) -> None:
        """Whatever they overlap, and with imports in between."""
        chance = random.Random(7)
        for _ in range(30):
            start, until = sorted(chance.randrange(0, 31) * 10 for _ in range(2))
            self.between(start, until, backfill=True)
            if chance.random() < 0.2:
                self.a.logs[0].data += TEN
                self.run_import()
        while self.between(0, None, backfill=True).run is not None:
            pass
        size = sum(len(log.data) for log in self.a.logs)
        self.assertEqual(verify(str(self.to)).messages, size // 10)

    def test_ids_of_the_next_import_are_left_to_it(self) -> None:
        """Otherwise it would load them again."""
        self.a.logs[0].data += TEN
        report = self.between(100, 400, backfill=True)
        self.assertEqual(self.ranges(report), [(0, 100, 150), (1, 100, 150)])
        self.assertIn("ids from 300 on are left to the next import", report.notices[0])

    def test_a_log_that_has_lost_its_beginning_is_loaded_from_what_is_left(self) -> None:
        """The notice says so."""
        self.a.logs[0] = FakeLog(TEN + TEN, start=100)
        report = self.between(50, 150, backfill=True)
        self.assertEqual(self.ranges(report), [(0, 100, 150), (1, 50, 150)])
        self.assertIn("the log begins at 100; messages before it are no more", report.notices[0])

    def test_what_may_load_twice_is_refused(self) -> None:
        """A partition or a target without a position, removed runs, a log that gave ids again, a table."""
        self.a.logs.append(FakeLog(TEN))
        self.fails(TargetError, "has no position for topic 'a' .*, partition 2", backfill=True)
        del self.a.logs[2]
        self.a.logs[0] = FakeLog(TEN + TEN)
        self.run_import(accept_loss=True)
        self.fails(TargetError, "gave ids again", backfill=True)
        (self.to / "run=1").rename(self.to / "gone")
        self.fails(TargetError, "the runs before run=2 were removed.*name another directory", backfill=True)
        (self.to / "run=2").rename(self.to / "gone-too")
        self.fails(TargetError, "has no runs yet", backfill=True)
        with self.assertRaisesRegex(ConfigurationError, "is a table"):
            evolve(self.settings, to="iceberg:///x/a.b", format="parquet", backfill=True)

    def test_ids_that_are_there_twice_are_found_by_a_check(self) -> None:
        """A person may have copied a run of another target."""
        one = run_of(1, {A0: (100, 200)})
        for start, end, words in ((50, 110, "messages of both are there twice"), (50, 210, "impossible range")):
            two = evolve(run_of(2, {}, one), backfilled=(Loaded(A0, start, end, 1, 10),))
            with self.assertRaisesRegex(TargetError, words):
                check_chain([one, two])
