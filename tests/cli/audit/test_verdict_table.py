"""Tests of logd.cli.audit.verdict_table: a table that grows over runs of ``logd audit --parquet``."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.audit.event import Tier
from logd.audit.verdicts import Verdict
from logd.cli.audit.verdict_table import write_verdicts
from logd.errors import LogdError

MINUTE = 60_000
#: 2011-11-11T00:00:00Z in ms.
MIDNIGHT = 1_320_969_600_000


def verdict(window: int, expected: int, seen: int, **more: Any) -> Verdict:
    """Return a verdict on what was consumed."""
    row: dict[str, Any] = {"topic": "t", "width": MINUTE, "cluster": "A", "tier": Tier.CONSUMED, "group": "g", **more}
    return Verdict(window=MIDNIGHT + window * MINUTE, expected=expected, seen=seen, **row)


class VerdictTableTests(SynchronousTestCase):
    """The folder of ``--parquet``."""

    def setUp(self) -> None:
        """Choose the folder."""
        if find_spec("pyarrow") is None:
            raise SkipTest("pyarrow is not installed: pip install 'logd[spark]'")
        self.folder = Path(os.path.abspath(self.mktemp()))

    def rows(self) -> list[tuple[Any, ...]]:
        """Return topic, minute, expected, seen and state of all rows, as any reader of Parquet sees them."""
        from pyarrow import parquet

        rows = parquet.read_table(self.folder).to_pylist()
        found = [
            (r["topic"], (r["window"].timestamp() * 1000 - MIDNIGHT) // MINUTE, r["expected"], r["seen"], r["state"])
            for r in rows
        ]
        return sorted(found)

    def dates(self) -> dict[str, int]:
        """Return the dates, each with the inode of its file, which changes with each writing."""
        return {each.parent.name: each.stat().st_ino for each in self.folder.glob("date=*/verdicts.parquet")}

    def test_runs_add_to_the_table(self) -> None:
        """A later run judges pending windows; those that it was not asked for stay; each date has one file."""
        write_verdicts(
            [verdict(-1, 9, 9), verdict(0, 5, 3, pending=True), verdict(0, 1, 1, topic="u")], str(self.folder)
        )
        before = self.dates()
        self.assertEqual(sorted(before), ["date=2011-11-10", "date=2011-11-11"])
        write_verdicts([verdict(0, 5, 5), verdict(1, 7, 6, missing=1)], str(self.folder))
        self.assertEqual(self.rows(), [
            ("t", -1, 9, 9, "complete"), ("t", 0, 5, 5, "complete"), ("t", 1, 7, 6, "missing"),
            ("u", 0, 1, 1, "complete"),
        ])  # fmt: skip
        after = self.dates()
        self.assertEqual(before["date=2011-11-10"], after["date=2011-11-10"])
        write_verdicts([verdict(0, 5, 5)], str(self.folder))
        self.assertEqual(self.dates(), after)  # nothing new, nothing written
        self.assertEqual(sorted(os.listdir(self.folder)), ["_lock", "date=2011-11-10", "date=2011-11-11"])

    def test_a_verdict_from_fewer_events_does_not_replace_one_from_more(self) -> None:
        """Retention has removed the producers' events, or the group's, and a later run sees the rest."""
        write_verdicts([verdict(0, 5, 5), verdict(1, 5, 4, missing=1)], str(self.folder))
        write_verdicts([verdict(0, 0, 5, unaccounted=5), verdict(1, 5, 0, missing=5)], str(self.folder))
        self.assertEqual(self.rows(), [("t", 0, 5, 5, "complete"), ("t", 1, 5, 4, "missing")])

    def test_windows_of_another_width_are_refused(self) -> None:
        """Their sums would count messages twice."""
        write_verdicts([verdict(0, 5, 5)], str(self.folder))
        with self.assertRaisesRegex(LogdError, "has windows of 60 s, and these are of 3600 s: give --window, or"):
            write_verdicts([evolve(verdict(0, 5, 5), width=60 * MINUTE)], str(self.folder))

    def test_a_time_that_no_calendar_has_is_kept(self) -> None:
        """A producer's clock may say anything."""
        write_verdicts([verdict(1 << 40, 5, 5)], str(self.folder))
        write_verdicts([verdict(1 << 40, 6, 6)], str(self.folder))
        self.assertEqual(list(self.dates()), ["date=__HIVE_DEFAULT_PARTITION__"])

    def test_a_damaged_file_is_named_with_the_remedy(self) -> None:
        """It is not written over; nor is a file in the folder's place."""
        write_verdicts([verdict(0, 5, 5)], str(self.folder))
        (path,) = self.folder.glob("date=*/*")
        path.write_bytes(b"PAR1 torn")
        with self.assertRaisesRegex(LogdError, "verdicts.parquet cannot be read: .*; move it away, and the next run"):
            write_verdicts([verdict(0, 5, 5)], str(self.folder))
        self.assertEqual(path.read_bytes(), b"PAR1 torn")
        with self.assertRaisesRegex(LogdError, "--parquet .*verdicts.parquet: "):
            write_verdicts([verdict(0, 5, 5)], str(path))

    def test_two_runs_at_once_lose_nothing(self) -> None:
        """Each adds to the same date, one after the other."""
        program = (
            "import sys; from tests.cli.audit.test_verdict_table import *\n"
            "number = int(sys.argv[2])\n"
            "for each in range(5): write_verdicts([verdict(number * 10 + each, 1, 1)], sys.argv[1])"
        )
        root = Path(__file__).resolve().parents[3]
        runs = [
            subprocess.Popen([sys.executable, "-c", program, str(self.folder), str(number)], cwd=root)
            for number in range(2)
        ]
        self.assertEqual([run.wait(240) for run in runs], [0, 0])
        self.assertEqual(len(self.rows()), 10)
