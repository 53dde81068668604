"""Tests of targets: what becomes visible, who wins, what is cleaned up."""

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
    """A rename is answered with an error, done or not."""

    def __init__(self, done: bool) -> None:
        self._done = done

    def rename(self, source: str, target: str) -> None:
        """Fail."""
        if self._done:
            super().rename(source, target)
        raise OSError(110, "Connection timed out")


class WithoutLocks(LocalFiles):
    """As some network mounts are."""

    def lock(self, path: str) -> IFile:
        """Fail."""
        raise OSError(95, "Operation not supported")


class Watched(LocalFiles):
    """Notes what is synced, and the renames in between."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def rename(self, source: str, target: str) -> None:
        """Note it."""
        self.done.append("rename")
        super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        """Note it."""
        self.done.append(path)
        super().sync_directory(path)

    def open_for_reading(self, path: str) -> IFile:
        """Files are opened here only to be synced."""
        self.done.append(path)
        return super().open_for_reading(path)


class TargetTestCase(SynchronousTestCase):
    """A target in a folder of its own."""

    def setUp(self) -> None:
        """Nothing is there yet."""
        self.root = Path(os.path.abspath(self.mktemp()))
        self.target = self.another()

    def another(self, files: LocalFiles | None = None) -> LocalTarget:
        """An import's view of the same folder."""
        target = LocalTarget(str(self.root), files)
        self.addCleanup(target.close)
        return target

    def stage(self, offsets: RunOffsets, target: LocalTarget | None = None) -> None:
        """Data of a run."""
        target = target or self.target
        folder = Path(target.staging(offsets.uuid).removeprefix("file://"))
        (folder / "topic=a").mkdir(parents=True)
        (folder / "topic=a" / "part-0.parquet").write_text(offsets.uuid)

    def names(self) -> list[str]:
        """What readers see."""
        return sorted(name for name in os.listdir(self.root) if name[0] not in "_.")


class LayoutTests(SynchronousTestCase):
    """Names."""

    def test_runs(self) -> None:
        """Only what an import calls a run is one."""
        self.assertEqual([run_number(name) for name in ("run=1", "run=1234567")], [1, 1234567])
        for name in ("run=0", "run=01", "run=-1", "run=", "run=1x", "runs", "run=1.bak", "_staging", "run=\u0661"):
            self.assertIsNone(run_number(name), name)


class PublishTests(TargetTestCase):
    """One rename decides."""

    def test_published(self) -> None:
        """A run is visible with data and offsets; before, nothing is; a second one follows."""
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

    def test_lost(self) -> None:
        """Who comes second, where no lock keeps imports apart, loses: what is there stays, and who won is named."""
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

    def test_lost_answer(self) -> None:
        """A rename that was done and answered with an error is a success."""
        self.target.acquire()
        one = run_of(1, {A0: (0, 100)})
        self.stage(one)
        publish(self.another(RenamesBadly(done=True)), one)
        self.assertEqual(last_run(self.target), one)

    def test_failed(self) -> None:
        """A rename that was not done is an error, and nothing is visible."""
        self.target.acquire()
        one = run_of(1, {A0: (0, 100)})
        self.stage(one)
        with self.assertRaises(OSError):
            publish(self.another(RenamesBadly(done=False)), one)
        self.assertEqual(self.names(), [])

    def test_synced_before_renamed(self) -> None:
        """Every file and folder of the run is synced before the rename, and the folder of the runs behind it."""
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
    """The lock, and what the dead leave."""

    def test_two(self) -> None:
        """The second import on a machine is told at once; when the first has ended it gets in."""
        self.target.acquire()
        other = self.another()
        with self.assertRaisesRegex(RunLost, "another import into .* is running"):
            other.acquire()
        self.target.close()
        other.acquire()

    def test_clean(self) -> None:
        """With the lock, everything that is staged belongs to the dead, and goes; runs stay."""
        self.target.acquire()
        one, two = run_of(1, {A0: (0, 100)}), run_of(2, {A0: (100, 110)})
        for each in (one, two):
            self.stage(each)
        publish(self.target, one)
        self.assertEqual(len(self.target.clean()), 1)
        self.assertEqual((os.listdir(self.root / "_staging"), self.names()), ([], ["run=1"]))

    def test_no_locks(self) -> None:
        """On a file system without locks only what has not changed for a day goes."""
        target = self.another(WithoutLocks())
        target.acquire()
        one, two = run_of(1, {A0: (0, 100)}), run_of(2, {A0: (100, 110)})
        for each in (one, two):
            self.stage(each)
        for where in ("topic=a/part-0.parquet", "topic=a", "."):
            os.utime(self.root / "_staging" / "run-1" / where, (0, 0))
        os.utime(self.root / "_staging" / "run-2", (0, 0))
        self.assertEqual([path[-6:] for path in target.clean()], ["/run-1"])

    def test_dead_holder(self) -> None:
        """The lock of an import that was killed is free."""
        program = (
            "import os, sys; from logd.spark.importer.targets.local import LocalTarget\n"
            "t = LocalTarget(sys.argv[1]); t.acquire(); os.kill(os.getpid(), 9)"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        died = subprocess.run([sys.executable, "-c", program, str(self.root)], env=environment, timeout=60)
        self.assertEqual(died.returncode, -9)
        self.target.acquire()


class ReadingTests(TargetTestCase):
    """What is in the way."""

    def publish(self, offsets: RunOffsets) -> None:
        """Make a run visible."""
        self.stage(offsets)
        publish(self.target, offsets)

    def test_foreign(self) -> None:
        """A run without offsets, with another run's, or behind a missing one is named with what to do."""
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

    def test_overlap(self) -> None:
        """The last run is held to the one before it."""
        self.target.acquire()
        one = run_of(1, {A0: (0, 100)})
        self.publish(one)
        self.publish(run_of(2, {A0: (90, 110)}, one))
        with self.assertRaisesRegex(TargetError, "overlap"):
            last_run(self.target)

    def test_staging_elsewhere(self) -> None:
        """A staging folder on another file system is refused before anything is loaded into it."""
        if os.stat("/dev/shm").st_dev == os.stat(os.path.dirname(self.root)).st_dev:
            self.skipTest("/dev/shm is on the same file system")
        elsewhere = tempfile.mkdtemp(dir="/dev/shm")
        self.addCleanup(os.rmdir, elsewhere)
        self.root.mkdir()
        (self.root / "_staging").symlink_to(elsewhere)
        with self.assertRaisesRegex(TargetError, "_staging is on another file system than .*make it a plain folder"):
            self.target.acquire()

    def test_staging_in_the_way(self) -> None:
        """So is one that is none."""
        self.root.mkdir()
        (self.root / "_staging").write_text("")
        with self.assertRaisesRegex(TargetError, "cannot write into .*: _staging: File exists"):
            self.target.acquire()

    def test_no_directory(self) -> None:
        """A target that is a file is refused; one that does not exist has no runs, and is not made by looking."""
        path = self.mktemp()
        Path(path).write_text("")
        with self.assertRaisesRegex(TargetError, "not a directory"):
            LocalTarget(path)
        self.assertEqual((self.target.runs(), self.root.exists()), ([], False))
