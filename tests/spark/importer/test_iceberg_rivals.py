"""Tests of logd.spark.importer.targets.iceberg: a real catalog in SQLite and rival writers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

from logd.spark.importer.errors import RunLost, TargetError
from logd.spark.importer.targets.target import last_run, publish
from tests.spark.importer.runs import A0, run_of
from tests.spark.importer.tables import MISSING, TableTestCase, setUpModule

__all__ = ["setUpModule"]

if not MISSING:
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
    from pyiceberg.table import Table

    from logd.spark.importer.targets.table_files import TableFiles


class RivalTests(TableTestCase):
    """Other writers."""

    def test_two_imports(self) -> None:
        """One of two that load the same messages fails, and nothing of it is visible or left."""
        first = self.load(self.target, run_of(1, {A0: (0, 10)}))
        mine, theirs = (run_of(2, {A0: (10, 30)}, first, uuid=name) for name in ("mine", "theirs"))
        other = self.opened()
        self.stage(other, theirs)
        self.stage(self.target, mine)
        publish(other, theirs)
        with self.assertRaisesRegex(RunLost, "run=2 first"):
            publish(self.target, mine)
        self.target.discard("mine")
        self.assertEqual(self.ids(), [0, 10, 20])
        self.assertEqual(self.staged(), ["data/logd-run-1", "data/logd-theirs"])

    def test_two_at_the_same_moment(self) -> None:
        """The rival commits between the check and the commit; pyiceberg alone would append behind it."""
        first = self.load(self.target, run_of(1, {A0: (0, 10)}))
        mine, theirs = (run_of(2, {A0: (10, 30)}, first, uuid=name) for name in ("mine", "theirs"))
        other = self.opened()
        self.stage(other, theirs)
        self.stage(self.target, mine)
        self.before_commit(lambda: publish(other, theirs))
        with self.assertRaisesRegex(RunLost, "run=2 first"):
            publish(self.target, mine)
        self.assertEqual(self.ids(), [0, 10, 20])

    def test_two_first_imports(self) -> None:
        """The same for runs that create the table."""
        mine, theirs = (run_of(1, {A0: (0, 20)}, uuid=name) for name in ("mine", "theirs"))
        other = self.opened()
        self.stage(other, theirs)
        self.stage(self.target, mine)
        self.before_commit(lambda: publish(other, theirs))
        with self.assertRaisesRegex(RunLost, "run=1 first"):
            publish(self.target, mine)
        self.assertEqual(self.ids(), [0, 10])

    def test_other_changes_at_the_same_moment(self) -> None:
        """Rows that others append, or properties that they set, do not stop an import."""
        self.target = self.opened(("topic",))  # pyiceberg appends to tables with hours only if it has another package
        first = self.load(self.target, run_of(1, {A0: (0, 10)}))
        run = run_of(2, {A0: (10, 20)}, first)
        self.stage(self.target, run)

        def change() -> None:
            rows = self.table().scan().to_arrow()
            self.table().append(rows)
            self.table().transaction().set_properties({"owner": "somebody"}).commit_transaction()

        self.before_commit(change)
        publish(self.target, run)
        self.assertEqual(self.ids(), [0, 0, 10])
        self.assertEqual(last_run(self.opened()), run)

    def test_a_table_that_others_change_all_the_time(self) -> None:
        """The import ends with a clear error, and nothing of it is left."""
        run = run_of(1, {A0: (0, 10)})
        self.stage(self.target, run)
        busy = mock.patch.object(Table, "_do_commit", side_effect=CommitFailedException("busy"))
        with busy, self.assertRaisesRegex(RunLost, "others changed the table 10 times"):
            publish(self.target, run)
        self.target.discard(run.uuid)
        self.assertEqual(self.staged(), [])

    def test_a_lost_answer(self) -> None:
        """A commit whose answer is lost is found in the table, and counts."""
        run = run_of(1, {A0: (0, 10)})
        self.stage(self.target, run)
        self.lose_the_answer(done=True)
        publish(self.target, run)
        self.assertEqual((self.ids(), last_run(self.opened())), ([0], run))

    def test_a_lost_answer_and_a_catalog_that_is_away(self) -> None:
        """Files of which nobody knows whether they were committed stay; the next import looks."""
        for done in (True, False):
            run = run_of(1, {A0: (0, 10)}, uuid=f"done-{done}")
            self.stage(self.target, run)
            self.lose_the_answer(done)
            away = mock.patch.object(self.target, "read_offsets", side_effect=TargetError("away"))
            with away, self.assertRaises(TargetError):
                publish(self.target, run)
            self.target.discard(run.uuid)
            self.assertIn(f"data/logd-{run.uuid}", self.staged())
            if done:
                self.assertEqual(self.opened(stale_seconds=-1.0).clean(), [])
                self.assertEqual(self.staged(), ["data/logd-done-True"])
                self.assertEqual(self.ids(), [0])
                self.table().catalog.drop_table("logs.clicks")
            else:
                self.assertEqual(len(self.opened(stale_seconds=-1.0).clean()), 1)
                self.assertEqual(self.staged(), ["data/logd-done-True"])

    def test_an_interruption_just_after_the_commit(self) -> None:
        """The run is in the table, so its files stay."""
        run = run_of(1, {A0: (0, 20)})
        self.stage(self.target, run)
        interrupted = mock.patch.object(TableFiles, "sync_metadata", side_effect=KeyboardInterrupt)
        with interrupted, self.assertRaises(KeyboardInterrupt):
            publish(self.target, run)
        self.target.discard(run.uuid)
        self.assertEqual((self.ids(), last_run(self.opened())), ([0, 10], run))

    def test_a_table_made_anew_in_another_place(self) -> None:
        """The files of the run are not there, and without them the table would have its positions alone."""
        run = run_of(1, {A0: (0, 20)})
        self.stage(self.target, run)
        old = self.table()
        old.catalog.drop_table("logs.clicks")
        place = f"file://{self.folder}/elsewhere"
        old.catalog.create_table("logs.clicks", old.schema(), location=place, partition_spec=old.spec())
        with self.assertRaisesRegex(TargetError, "dropped and made anew while this import was running"):
            publish(self.target, run)
        self.assertIsNone(last_run(self.opened()))

    def before_commit(self, act: Callable[[], object]) -> None:
        """Let ``act`` happen once, just before the next commit reaches the catalog."""
        commit, acts = Table._do_commit, [act]

        def committing(table: Table, *arguments: Any, **named: Any) -> None:
            if acts:
                acts.pop()()
            commit(table, *arguments, **named)

        self.patch(Table, "_do_commit", committing)

    def lose_the_answer(self, done: bool) -> None:
        """Let the next commit fail without saying whether it was done."""
        commit, patched = Table._do_commit, mock.patch.object(Table, "_do_commit", autospec=True)

        def committing(table: Table, *arguments: Any, **named: Any) -> None:
            patched.stop()
            if done:
                commit(table, *arguments, **named)
            raise CommitStateUnknownException("the connection was lost")

        patched.start().side_effect = committing
