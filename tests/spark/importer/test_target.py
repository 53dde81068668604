"""Tests of logd.spark.importer.targets: visible runs, rival imports, and cleaning up."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.interfaces import IFile
from logd.log.disk.local_files import LocalFiles
from logd.spark.importer.errors import RunLost, TargetError
from logd.spark.importer.targets.layout import OFFSETS, run_number
from logd.spark.importer.targets.local import LocalTarget
from logd.spark.importer.targets.offsets import RunOffsets
from logd.spark.importer.targets.target import last_run, publish, read_run
from tests.spark.importer.runs import A0, run_of

ROOT = Path(__file__).resolve().parent.parent.parent.parent


class RenamesBadly(LocalFiles):
    """A file system whose rename fails, after it was done or before."""

    def __init__(self, done: bool) -> None:
        self._done = done

    def rename(self, source: str, target: str) -> None:
        """Rename or not, and raise."""
        if self._done:
            super().rename(source, target)
        raise OSError(110, "Connection timed out")


class WithoutLocks(LocalFiles):
    """A file system without locks, as some network mounts are."""

    def lock(self, path: str) -> IFile:
        """Raise."""
        raise OSError(95, "Operation not supported")


class Watched(LocalFiles):
    """A file system that notes what is synced, and the renames in between."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def rename(self, source: str, target: str) -> None:
        """Note the rename, and do it."""
        self.done.append("rename")
        super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        """Note the folder, and sync it."""
        self.done.append(path)
        super().sync_directory(path)

    def open_for_reading(self, path: str) -> IFile:
        """Note the file, which is opened here only to be synced."""
        self.done.append(path)
        return super().open_for_reading(path)


class TargetTestCase(SynchronousTestCase):
    """A target in a folder of its own."""

    def setUp(self) -> None:
        """Choose a folder that does not exist yet."""
        self.root = Path(os.path.abspath(self.mktemp()))
        self.target = self.another()

    def another(self, files: LocalFiles | None = None) -> LocalTarget:
        """Return a target for the same folder, as another import has it."""
        target = LocalTarget(str(self.root), files)
        self.addCleanup(target.close)
        return target

    def stage(self, offsets: RunOffsets, target: LocalTarget | None = None) -> None:
        """Write the data of a run into its staging folder."""
        target = target or self.target
        folder = Path(target.staging(offsets.uuid).removeprefix("file://"))
        (folder / "topic=a").mkdir(parents=True)
        (folder / "topic=a" / "part-0.parquet").write_text(offsets.uuid)

    def names(self) -> list[str]:
        """Return the names that readers see."""
        return sorted(name for name in os.listdir(self.root) if name[0] not in "_.")


class LayoutTests(SynchronousTestCase):
    """Names in a target."""

    def test_only_an_imports_names_are_runs(self) -> None:
        """A folder that a person renamed or copied is none."""
        self.assertEqual([run_number(name) for name in ("run=1", "run=1234567")], [1, 1234567])
        for name in ("run=0", "run=01", "run=-1", "run=", "run=1x", "runs", "run=1.bak", "_staging", "run=\u0661"):
            self.assertIsNone(run_number(name), name)


class PublishTests(TargetTestCase):
    """``publish``, where one rename decides."""

    def test_a_run_becomes_visible_whole(self) -> None:
        """Data and offsets appear together, and a second run follows."""
        self.target.acquire()
        one = run_of(1, {A0: (0, 100)})
        self.stage(one)
        self.assertEqual((self.names(), self.target.runs(), last_run(self.target)), ([], [], None))
        publish(self.target, one)
        self.assertEqual((self.names(), last_run(self.target)), (["run=1"], one))
        self.assertEqual((self.root / "run=1/topic=a/part-0.parquet").read_text(), "run-1")
        two = run_of(2, {A0: (100, 110)}, one)
        self.stage(two)
        publish(self.target, two)
        self.assertEqual((self.target.runs(), last_run(self.target)), ([1, 2], two))
        self.assertEqual(os.listdir(self.root / "_staging"), [])

    def test_the_later_of_two_imports_loses(self) -> None:
        """Without a lock both get as far as that; the first one's run stays, and is named."""
        self.target.acquire()
        ours, theirs = run_of(1, {A0: (0, 100)}, uuid="ours"), run_of(1, {A0: (0, 90)}, uuid="theirs")
        self.stage(theirs)
        self.stage(ours)
        publish(self.target, theirs)
        with self.assertRaisesRegex(RunLost, "its uuid is theirs"):
            publish(self.target, ours)
        self.assertEqual(read_run(self.target, 1), theirs)
        self.target.discard("ours")
        self.assertEqual(os.listdir(self.root / "_staging"), [])

    def test_a_rename_done_despite_an_error_is_a_success(self) -> None:
        """A network mount may lose the answer."""
        self.target.acquire()
        one = run_of(1, {A0: (0, 100)})
        self.stage(one)
        publish(self.another(RenamesBadly(done=True)), one)
        self.assertEqual(last_run(self.target), one)

    def test_a_failed_rename_publishes_nothing(self) -> None:
        """The error is the rename's."""
        self.target.acquire()
        one = run_of(1, {A0: (0, 100)})
        self.stage(one)
        with self.assertRaises(OSError):
            publish(self.another(RenamesBadly(done=False)), one)
        self.assertEqual(self.names(), [])

    def test_a_staged_folder_is_named_as_hadoop_reads_it(self) -> None:
        """Hadoop decodes nothing: an encoded space would be another folder, beside the target, which stays empty."""
        target = LocalTarget(f"{self.root}/my logs%20#1")
        self.assertEqual(target.staging("u"), f"file://{self.root}/my logs%20#1/_staging/u")

    def test_a_run_is_synced_before_its_rename(self) -> None:
        """The folder of the runs is synced after it, so that a loss of power leaves a whole run or none."""
        self.target.acquire()
        one = run_of(1, {A0: (0, 100)})
        self.stage(one)
        files = Watched()
        publish(self.another(files), one)
        done = [os.path.relpath(path, self.root) if path != "rename" else path for path in files.done]
        staged = "_staging/run-1"
        at = done.index("rename")
        self.assertEqual(
            set(done[:at]), {staged, f"{staged}/topic=a", f"{staged}/topic=a/part-0.parquet", f"{staged}/{OFFSETS}"}
        )
        self.assertEqual(done[at + 1 :], [".", "_staging"])


class OneAtATimeTests(TargetTestCase):
    """The lock of a target, and the files that dead imports leave."""

    def test_a_second_import_is_kept_out_by_the_lock(self) -> None:
        """The attempt fails at once, and succeeds when the first import has ended."""
        self.target.acquire()
        other = self.another()
        with self.assertRaisesRegex(RunLost, "another import into .* is running"):
            other.acquire()
        self.target.close()
        other.acquire()

    def test_staged_files_of_dead_imports_are_removed(self) -> None:
        """With the lock no other import is alive; runs stay."""
        self.target.acquire()
        one, two = run_of(1, {A0: (0, 100)}), run_of(2, {A0: (100, 110)})
        for each in (one, two):
            self.stage(each)
        publish(self.target, one)
        self.assertEqual(len(self.target.clean()), 1)
        self.assertEqual((os.listdir(self.root / "_staging"), self.names()), ([], ["run=1"]))

    def test_only_old_staged_files_are_removed_without_locks(self) -> None:
        """Another import may be alive, and changes its files within a day."""
        target = self.another(WithoutLocks())
        target.acquire()
        one, two = run_of(1, {A0: (0, 100)}), run_of(2, {A0: (100, 110)})
        for each in (one, two):
            self.stage(each)
        for where in ("topic=a/part-0.parquet", "topic=a", "."):
            os.utime(self.root / "_staging" / "run-1" / where, (0, 0))
        os.utime(self.root / "_staging" / "run-2", (0, 0))
        self.assertEqual([path[-6:] for path in target.clean()], ["/run-1"])

    def test_a_killed_imports_lock_is_free(self) -> None:
        """The kernel releases it with the process."""
        program = (
            "import os, sys; from logd.spark.importer.targets.local import LocalTarget\n"
            "t = LocalTarget(sys.argv[1]); t.acquire(); os.kill(os.getpid(), 9)"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        died = subprocess.run([sys.executable, "-c", program, str(self.root)], env=environment, timeout=60)
        self.assertEqual(died.returncode, -9)
        self.target.acquire()


class ReadingTests(TargetTestCase):
    """Targets that hold something unexpected."""

    def publish(self, offsets: RunOffsets) -> None:
        """Make a run visible."""
        self.stage(offsets)
        publish(self.target, offsets)

    def test_a_foreign_run_is_named_with_the_remedy(self) -> None:
        """The run may have no offsets or another run's, or stand behind a missing one."""
        self.target.acquire()
        (self.root / "run=1").mkdir()
        with self.assertRaisesRegex(TargetError, "run=1 has no _offsets.json.*move it away"):
            last_run(self.target)
        (self.root / "run=1").rmdir()
        one = run_of(1, {A0: (0, 100)})
        two = run_of(2, {A0: (100, 110)}, one)
        self.publish(one)
        self.publish(two)
        (self.root / "run=2").rename(self.root / "run=3")
        with self.assertRaisesRegex(TargetError, "is that of run=2: it was moved here"):
            last_run(self.target)
        three = run_of(3, {A0: (110, 120)}, two)
        (self.root / "run=3" / OFFSETS).write_bytes(three.to_bytes())
        with self.assertRaisesRegex(TargetError, "run=2 is missing"):
            last_run(self.target)

    def test_the_last_run_is_checked_against_the_one_before(self) -> None:
        """An overlap would be imported on top of."""
        self.target.acquire()
        one = run_of(1, {A0: (0, 100)})
        self.publish(one)
        self.publish(run_of(2, {A0: (90, 110)}, one))
        with self.assertRaisesRegex(TargetError, "overlap"):
            last_run(self.target)

    def test_a_staging_folder_elsewhere_is_refused(self) -> None:
        """A rename from another file system would fail after everything is loaded."""
        if os.stat("/dev/shm").st_dev == os.stat(os.path.dirname(self.root)).st_dev:
            self.skipTest("/dev/shm is on the same file system")
        elsewhere = tempfile.mkdtemp(dir="/dev/shm")
        self.addCleanup(os.rmdir, elsewhere)
        self.root.mkdir()
        (self.root / "_staging").symlink_to(elsewhere)
        with self.assertRaisesRegex(TargetError, "_staging is on another file system than .*make it a plain folder"):
            self.target.acquire()

    def test_a_file_named_as_the_staging_folder_is_refused(self) -> None:
        """The error names it."""
        self.root.mkdir()
        (self.root / "_staging").write_text("")
        with self.assertRaisesRegex(TargetError, "cannot write into .*: _staging: File exists"):
            self.target.acquire()

    def test_a_target_that_is_a_file_is_refused(self) -> None:
        """One that does not exist has no runs, and is not made by looking."""
        path = self.mktemp()
        Path(path).write_text("")
        with self.assertRaisesRegex(TargetError, "not a directory"):
            LocalTarget(path)
        self.assertEqual((self.target.runs(), self.root.exists()), ([], False))
