"""Tests of logd.doctor.disks."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.config import BrokerSettings, broker_settings
from logd.config.sources import parse_assignments
from logd.doctor.disks import (
    Mount,
    Room,
    StoredLogs,
    examine_mount,
    examine_room,
    examine_writing,
    measure_logs,
    measure_room,
    mount_of,
)
from logd.doctor.observation import Level, Observation, worst

MOUNTS = """\
/dev/root / ext4 rw,relatime 0 0
tmpfs /tmp tmpfs rw 0 0
/dev/sdb1 /var/lib/my\\040logs xfs rw,noatime 0 0
nas:/logs /var/lib/nas nfs4 rw,hard 0 0
/dev/sdc1 /var/lib/nas ext4 rw 0 0
nonsense
"""
GIB = 1 << 30


def settings(*assignments: str) -> BrokerSettings:
    """Return settings of a broker."""
    return broker_settings(parse_assignments(["data=/d", *assignments]))


class MountTests(SynchronousTestCase):
    """The file system of a directory."""

    def kind(self, path: str) -> str:
        """Return the kind of the file system of ``path``."""
        found = mount_of(path, MOUNTS)
        assert found is not None
        return found.kind

    def test_the_innermost_mount_counts(self) -> None:
        """Spaces are escaped in the table, and of two at one point the later one is on top."""
        self.assertEqual(self.kind("/home"), "ext4")
        self.assertEqual(self.kind("/tmp/logd"), "tmpfs")
        self.assertEqual(self.kind("/tmpfile"), "ext4")
        self.assertEqual(self.kind("/var/lib/my logs/broker"), "xfs")
        self.assertEqual(self.kind("/var/lib/nas"), "ext4")
        self.assertIsNone(mount_of("/home", ""))

    def level(self, kind: str, *options: str) -> Level:
        """Return the worst level for a file system."""
        return worst(examine_mount("/d", Mount("dev", "/d", kind, options)))

    def test_file_systems_that_forget_or_are_elsewhere(self) -> None:
        """Memory and a container's layer lose messages; a server's syncs are only as good as the server."""
        self.assertEqual(self.level("ext4", "rw", "noatime"), Level.OK)
        for kind in ("tmpfs", "ramfs", "overlay"):
            self.assertEqual(self.level(kind, "rw"), Level.PROBLEM, kind)
        for kind in ("nfs4", "cifs", "fuse.sshfs"):
            self.assertEqual(self.level(kind, "rw"), Level.WARNING, kind)

    def test_options_that_lose_or_slow_down(self) -> None:
        """Read-only, without barriers, and synchronous."""
        self.assertEqual(self.level("ext4", "ro"), Level.PROBLEM)
        self.assertEqual(self.level("ext4", "rw", "nobarrier"), Level.PROBLEM)
        self.assertEqual(self.level("ext4", "rw", "barrier=0"), Level.PROBLEM)
        self.assertEqual(self.level("ext4", "rw", "sync"), Level.WARNING)


class WritingTests(SynchronousTestCase):
    """Tests of whether a broker of this user can write to its directory."""

    def test_a_folder_of_somebody_else_and_a_file(self) -> None:
        """Both are problems, with the place that has to change."""
        folder = self.mktemp()
        os.mkdir(folder)
        self.assertEqual(list(examine_writing("/d", folder, True)), [])
        (closed,) = examine_writing(f"{folder}/new", folder, False)
        self.assertEqual(closed.level, Level.PROBLEM)
        self.assertIn(f"may not write to {folder}", closed.text)
        path = Path(folder, "file")
        path.touch()
        (wrong,) = examine_writing(str(path), str(path), True)
        self.assertEqual((wrong.level, wrong.remedy), (Level.PROBLEM, "correct --data"))


class RoomTests(SynchronousTestCase):
    """Space against what is kept."""

    def findings(self, room: Room, logs: StoredLogs, *assignments: str) -> list[Observation]:
        """Return what is more than in order."""
        found = examine_room("/d", room, logs, settings(*assignments))
        return [each for each in found if each.level > Level.OK]

    def test_plenty(self) -> None:
        """Nothing to say, with and without logs."""
        self.assertEqual(self.findings(Room(90 * GIB, 100 * GIB), StoredLogs(0, 0, 0.0)), [])
        self.assertEqual(self.findings(Room(90 * GIB, 100 * GIB), StoredLogs(1, GIB, 7 * 86400.0)), [])

    def test_little_room(self) -> None:
        """Under 15 % is a warning, under 5 % a problem; inodes are looked at too."""
        logs = StoredLogs(1, GIB, 7 * 86400.0)
        self.assertEqual([each.level for each in self.findings(Room(10 * GIB, 100 * GIB), logs)], [Level.WARNING])
        self.assertEqual([each.level for each in self.findings(Room(2 * GIB, 100 * GIB), logs)], [Level.PROBLEM])
        (inodes,) = self.findings(Room(50 * GIB, 100 * GIB, 10, 1000), logs)
        self.assertIn("inodes", inodes.text)

    def test_growth_that_retention_allows(self) -> None:
        """A day of 20 GiB becomes 140 GiB in the seven days of the default."""
        (found,) = self.findings(Room(50 * GIB, 100 * GIB), StoredLogs(4, 20 * GIB, 86400.0))
        self.assertIn("keeps 140.0 GiB", found.text)
        proposed = int(found.remedy.split()[3].rstrip(",").replace(",", ""))
        self.assertEqual(round(proposed, -3), round(0.8 * 70 / 20 * 86_400_000))
        self.assertEqual(self.findings(Room(50 * GIB, 100 * GIB), StoredLogs(4, 20 * GIB, 60.0)), [])

    def test_retention_by_size(self) -> None:
        """The sum over the partitions counts; without any limit there is one warning."""
        size = f"retention.bytes={20 * GIB}"
        (found,) = self.findings(Room(50 * GIB, 100 * GIB), StoredLogs(4, 20 * GIB, 60.0), size)
        self.assertIn("grow to 80.0 GiB", found.text)
        (none,) = self.findings(Room(50 * GIB, 100 * GIB), StoredLogs(4, GIB, 60.0), "retention.ms=-1")
        self.assertIn("nothing limits", none.text)

    def test_what_is_measured(self) -> None:
        """Segments of partitions; other files and folders are none."""
        data = Path(self.mktemp())
        (data / "t-0").mkdir(parents=True)
        (data / "coordination").mkdir()
        segment = data / "t-0" / f"{0:020}.log"
        segment.write_bytes(b"x" * 10_000)
        (data / "t-0" / "other").write_bytes(b"x" * 100_000)
        os.utime(segment, (1000, 1000))
        logs = measure_logs(str(data), now=1500.0)
        self.assertEqual((logs.partitions, logs.age), (1, 500.0))
        self.assertTrue(10_000 <= logs.bytes < 60_000, logs)
        room = measure_room(str(data))
        self.assertTrue(0 < room.free <= room.total)
