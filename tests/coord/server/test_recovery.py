"""Tests of the recovery of a durable tree's folder: damage is never passed over, and torn tails are cut."""

from __future__ import annotations

from random import Random

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.server.storage.change_file import ChangeFileHead, encode_head, encode_record
from logd.coord.server.storage.durable_tree import Storage
from logd.coord.server.storage.folder import changes_name, snapshot_name
from logd.coord.server.storage.journal import LONGEST_RETRY_SECONDS, Journal, JournalDisk
from logd.coord.server.storage.recovery import RecoveredTree, recover
from logd.coord.server.storage.snapshots import write_snapshot
from logd.coord.tree.changes import Change, NodeMade
from logd.errors import DataDirectoryError
from logd.log.recovery.flush_mark import write_mark
from logd.testing.memory.files import MemoryFiles
from tests.log.threads import Threads

FOLDER = "/coordination"
SALT = b"saltsalt"


def record(zxid: int, flushed: int) -> bytes:
    """Return a record with something in it."""
    return encode_record(SALT, zxid, flushed, b"change %d" % zxid)


class FolderTestCase(SynchronousTestCase):
    """A folder on a disk in memory."""

    def setUp(self) -> None:
        """Make an empty folder that lasts."""
        self.files = MemoryFiles()
        self.files.make_directory(FOLDER)
        self.files.sync_directory("/")
        self.reports: list[str] = []

    def put(self, name: str, content: bytes) -> None:
        """Make a file that lasts, in place of any other."""
        path = f"{FOLDER}/{name}"
        if self.files.exists(path):
            self.files.remove(path)
        file = self.files.open(path, create=True)
        file.append([content])
        file.sync_data()
        file.close()
        self.files.sync_directory(FOLDER)

    def put_changes(self, base: int, *zxids: int) -> bytes:
        """Make a file of changes, each flushed before the next was written."""
        content = encode_head(ChangeFileHead(base, SALT)) + b"".join(record(zxid, zxid - 1) for zxid in zxids)
        self.put(changes_name(base), content)
        return content

    def recover(self) -> RecoveredTree:
        """Return the tree that is recovered."""
        return recover(self.files, FOLDER, lambda text, **fields: self.reports.append(text.format(**fields)))

    def refused(self, *words: str) -> None:
        """Check that recovery fails with an error of these words."""
        error = self.assertRaises(DataDirectoryError, self.recover)
        for word in (FOLDER, "ut back a copy", *words):
            self.assertIn(word, str(error))


class RecoveryTests(FolderTestCase):
    """Folders that are as a crash may leave them."""

    def test_an_empty_folder_is_an_empty_tree(self) -> None:
        """A first start needs no preparation."""
        self.assertEqual(self.recover(), RecoveredTree())

    def test_files_of_changes_follow_one_another(self) -> None:
        """New records go to the last one."""
        self.put_changes(0, 1, 2)
        self.put_changes(2, 3)
        found = self.recover()
        self.assertEqual(found.changes, [(1, b"change 1"), (2, b"change 2"), (3, b"change 3")])
        self.assertEqual((found.last, found.head), (3, ChangeFileHead(2, SALT)))

    def test_changes_of_the_snapshot_are_not_replayed(self) -> None:
        """The changes behind it are."""
        self.put_changes(0, 1, 2, 3)
        write_snapshot(self.files, FOLDER, 2, [b"piece"])
        found = self.recover()
        self.assertEqual((found.pieces, found.changes), ([b"piece"], [(3, b"change 3")]))

    def test_a_torn_tail_is_cut_and_reported(self) -> None:
        """No client was told of that record, at whatever byte it was torn."""
        whole = self.put_changes(0, 1, 2)
        for end in range(len(whole) - len(record(2, 1)) + 1, len(whole)):
            self.put(changes_name(0), whole[:end])
            self.assertEqual(self.recover().last, 1)
            self.assertIn("cut", self.reports.pop())
            self.assertEqual(self.files.size(f"{FOLDER}/{changes_name(0)}"), len(whole) - len(record(2, 1)))

    def test_a_file_with_a_torn_head_is_made_anew(self) -> None:
        """A crash left it before its first record."""
        self.put_changes(0, 1)
        self.put(changes_name(1), encode_head(ChangeFileHead(1, SALT))[:10])
        found = self.recover()
        self.assertEqual((found.last, found.head), (1, None))
        self.assertFalse(self.files.exists(f"{FOLDER}/{changes_name(1)}"))

    def test_a_clients_data_are_never_taken_for_a_record(self) -> None:
        """They may look like one, but no client knows the salt."""
        planted = encode_record(bytes(8), 3, 2, b"")
        torn = encode_record(SALT, 2, 1, planted + planted)[:-1]
        self.put(changes_name(0), self.put_changes(0, 1) + torn)
        self.assertEqual(self.recover().last, 1)

    def test_unfinished_files_are_removed(self) -> None:
        """A snapshot that was never renamed is such a file."""
        self.put("snapshot.0000000000000001.tmp", b"half")
        self.recover()
        self.assertEqual(self.files.list(FOLDER), [])


class DamageTests(FolderTestCase):
    """Acknowledged changes that cannot be read."""

    def test_a_changed_byte_is_an_error_with_its_remedy(self) -> None:
        """Later records, or the mark, vouch for the place."""
        whole = self.put_changes(0, 1, 2, 3)
        write_mark(self.files, FOLDER, 3)
        for at in range(len(whole)):
            self.put(changes_name(0), whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
            self.refused(changes_name(0))
            self.put(changes_name(0), whole)
        self.assertEqual(self.recover().last, 3)

    def test_later_records_vouch_without_the_mark(self) -> None:
        """A loss of power may take the mark; all but the last sync's records are still protected."""
        whole = self.put_changes(0, 1, 2, 3)
        first = len(encode_head(ChangeFileHead(0, SALT)))
        for at in range(first, first + len(record(1, 0))):
            self.put(changes_name(0), whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
            self.refused(changes_name(0), f"damaged at byte {first}", "--salvage")

    def test_a_missing_file_is_noticed(self) -> None:
        """It may be the first, the middle or the last one."""
        for base, *zxids in ((0, 1, 2), (2, 3, 4), (4, 5, 6)):
            self.put_changes(base, *zxids)
        write_mark(self.files, FOLDER, 6)
        for base in (0, 2, 4):
            path = f"{FOLDER}/{changes_name(base)}"
            file = self.files.open(path)
            content = file.read_at(0, 1000)
            file.close()
            self.files.remove(path)
            self.refused()
            self.put(changes_name(base), content)
        self.assertEqual(self.recover().last, 6)

    def test_a_file_with_a_successor_has_no_torn_tail(self) -> None:
        """It was whole when the next one was begun."""
        whole = self.put_changes(0, 1, 2)
        self.put_changes(2, 3)
        self.put(changes_name(0), whole[:-1])
        self.refused(changes_name(0))

    def test_files_of_a_later_release_are_refused(self) -> None:
        """The error names their format."""
        from logd.coord.server.storage import change_file as changefile

        self.patch(changefile, "FORMAT", 2)
        self.put_changes(0, 1)
        self.patch(changefile, "FORMAT", 1)
        self.assertIn("format 2", str(self.assertRaises(DataDirectoryError, self.recover)))


class SnapshotTests(FolderTestCase):
    """Snapshots that are damaged, and the files that are kept beside them."""

    def setUp(self) -> None:
        """Make three files of changes."""
        super().setUp()
        for base, *zxids in ((0, 1, 2), (2, 3, 4), (4, 5)):
            self.put_changes(base, *zxids)

    def test_the_older_snapshot_replaces_a_damaged_one(self) -> None:
        """The damaged one is set aside and reported; with the changes nothing is lost."""
        write_snapshot(self.files, FOLDER, 2, [b"two"])
        write_snapshot(self.files, FOLDER, 4, [b"four"])
        self.assertNotIn(changes_name(0), self.files.list(FOLDER))
        self.put(snapshot_name(4), b"x")
        found = self.recover()
        self.assertEqual((found.snapshot_zxid, found.pieces), (2, [b"two"]))
        self.assertEqual([zxid for zxid, _ in found.changes], [3, 4, 5])
        self.assertIn(snapshot_name(4), self.reports[0])
        self.assertIn(snapshot_name(4) + ".damaged", self.files.list(FOLDER))

    def test_a_snapshot_replaces_damaged_changes(self) -> None:
        """Those that it contains are passed over and reported, those behind it never."""
        write_snapshot(self.files, FOLDER, 2, [b"two"])
        self.files.remove(f"{FOLDER}/{changes_name(2)}")
        self.files.remove(f"{FOLDER}/{changes_name(4)}")
        whole = self.put_changes(0, 1, 2, 3, 4)
        head = len(encode_head(ChangeFileHead(0, SALT)))
        first, second = len(record(1, 0)), len(record(2, 1))
        for at in (*range(head, head + first + second), *range(head + first + second, len(whole))):
            self.put(changes_name(0), whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
            write_mark(self.files, FOLDER, 4)
            self.reports.clear()
            if at < head + first + second:
                found = self.recover()
                self.assertEqual((found.last, [zxid for zxid, _ in found.changes]), (4, [3, 4]), at)
                self.assertIn("the snapshot contains", self.reports[0])
            else:
                self.refused(changes_name(0))

    def test_two_damaged_snapshots_are_an_error(self) -> None:
        """The error names the newest of them."""
        write_snapshot(self.files, FOLDER, 2, [b"two"])
        write_snapshot(self.files, FOLDER, 4, [b"four"])
        for zxid in (2, 4):
            self.put(snapshot_name(zxid), b"x")
        self.refused(snapshot_name(4))

    def test_no_changed_byte_of_a_snapshot_passes(self) -> None:
        """A missing piece is noticed too."""
        write_snapshot(self.files, FOLDER, 2, [b"one", b"one", b"two"])
        path = f"{FOLDER}/{snapshot_name(2)}"
        content = self.files.open_for_reading(path).read_at(0, 1000)
        cut = content[:31] + content[31 + 11 :]
        for at in range(len(content)):
            self.put(snapshot_name(2), content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            self.assertEqual(self.recover().snapshot_zxid, 0, at)
        self.put(snapshot_name(2), cut)
        self.assertEqual(self.recover().snapshot_zxid, 0)

    def test_older_files_go_when_newer_ones_last(self) -> None:
        """A loss of power at any moment leaves a tree that can be recovered."""
        for seed in range(40):
            self.files = MemoryFiles(Random(seed))
            self.files.make_directory(FOLDER)
            self.files.sync_directory("/")
            for base, *zxids in ((0, 1, 2), (2, 3, 4), (4, 5)):
                self.put_changes(base, *zxids)
            write_snapshot(self.files, FOLDER, 2, [b"two"])
            write_snapshot(self.files, FOLDER, 4, [b"four"])
            self.files.restart(power_lost=True)
            self.assertEqual(self.recover().last, 5, seed)


class JournalTests(FolderTestCase):
    """Group commit, and disks that fail."""

    def setUp(self) -> None:
        """Start a journal over an empty folder."""
        super().setUp()
        self.clock, self.threads = Clock(), Threads()
        self.flushed: list[int] = []
        self.failures: list[Exception] = []
        self.disk = JournalDisk(FOLDER, self.files, self.threads, self.clock, lambda count: SALT[:count])
        self.journal = Journal.resume(self.disk, RecoveredTree())
        self.journal.start(self.flushed.append, self.failures.append)

    def append(self, zxid: int) -> None:
        """Append one more change."""
        self.journal.append(Change(zxid, 0, 1, (NodeMade(f"/{zxid}", b"", (), False),)))

    def test_changes_of_one_turn_share_a_sync(self) -> None:
        """Those that come during a sync share the next."""
        self.append(1)
        self.append(2)
        self.assertEqual(self.threads.works, [])
        self.clock.advance(0)
        self.append(3)
        self.append(4)
        self.clock.advance(0)
        self.assertEqual((len(self.threads.works), self.flushed), (1, []))
        self.threads.settle()
        self.assertEqual((self.flushed, self.journal.syncs), ([2, 4], 2))

    def test_a_long_turn_does_not_hold_up_the_disk(self) -> None:
        """The first change is written before the turn ends; the rest shares the next sync."""
        for zxid in range(1, 101):
            self.append(zxid)
        self.assertEqual(len(self.threads.works), 1)
        self.threads.settle()
        self.clock.advance(0)
        self.assertEqual((self.flushed[-1], self.journal.syncs, self.threads.works), (100, 2, []))

    def test_a_failed_sync_ends_the_journal(self) -> None:
        """Nothing is tried again, and nothing more is flushed: the kernel may have dropped the pages."""
        self.files.errors["sync_data"] = [OSError(5, "input/output error")]
        self.append(1)
        self.clock.advance(0)
        self.append(2)
        self.threads.settle()
        self.append(3)
        self.clock.advance(1)
        self.threads.settle()
        self.assertEqual((self.flushed, len(self.failures)), ([], 1))
        self.assertIn("look at that disk", str(self.failures[0]))

    def turn(self, seconds: float = 0.0) -> None:
        """Let time pass, and the disk's work be done."""
        self.clock.advance(seconds)
        self.threads.settle()

    def test_changes_wait_for_a_full_disk(self) -> None:
        """The torn one is cut back, and all are kept in order once there is room, without a failure."""
        self.append(1)
        self.turn()
        told: list[bool] = []
        self.journal.on_refused = lambda: told.append(self.journal.refused is not None)
        self.files.room = 10
        self.append(2)
        self.turn()
        size = self.files.size(f"{FOLDER}/{changes_name(0)}")
        self.append(3)
        for _ in range(5):
            self.files.room = 10
            self.turn(LONGEST_RETRY_SECONDS)
        self.assertEqual((self.flushed, self.failures, told), ([1], [], [True]))
        self.assertEqual(self.files.size(f"{FOLDER}/{changes_name(0)}"), size)
        self.files.room = None
        self.turn(LONGEST_RETRY_SECONDS)
        self.assertEqual((self.flushed, self.failures, told), ([1, 3], [], [True, False]))
        self.assertEqual([zxid for zxid, _ in self.recover().changes], [1, 2, 3])

    def test_a_file_made_late_begins_with_its_head(self) -> None:
        """It is written once there is room, after a failed creation and a failed write."""
        self.files.errors["create"] = [OSError(28, "no space left on device")]
        self.append(1)
        self.turn()
        self.files.room = 30
        self.turn(LONGEST_RETRY_SECONDS)
        self.files.room = None
        self.turn(LONGEST_RETRY_SECONDS)
        self.append(2)
        self.turn()
        self.assertEqual((self.flushed, self.failures), ([1, 2], []))
        self.assertEqual([zxid for zxid, _ in self.recover().changes], [1, 2])

    def test_a_torn_change_is_cut_when_the_disk_allows_it(self) -> None:
        """A disk that refuses to cut, too, leaves nothing between two changes."""
        self.append(1)
        self.turn()
        self.files.errors.update(append=[OSError(5, "error")] * 3, truncate=[OSError(5, "error")] * 2)
        self.append(2)
        for _ in range(6):
            self.turn(LONGEST_RETRY_SECONDS)
        self.assertEqual((self.flushed, self.failures), ([1, 2], []))
        self.assertEqual([zxid for zxid, _ in self.recover().changes], [1, 2])

    def test_a_journal_of_a_full_disk_can_be_closed(self) -> None:
        """No client was told of the changes that it refused."""
        self.files.room = 0
        self.append(1)
        self.turn()
        idle: list[bool] = []
        self.journal.when_idle(lambda: idle.append(True))
        self.journal.close()
        self.assertEqual((idle, self.clock.getDelayedCalls()), ([True], []))

    def test_a_folder_belongs_to_one_process(self) -> None:
        """The error says what to do."""
        first, second = (Storage(self.disk, 1 << 20, lambda text, **fields: None) for _ in range(2))
        first.open()
        error = self.assertRaises(DataDirectoryError, second.open)
        self.assertIn("a directory of its own", str(error))
        first.start(lambda zxid: None, lambda error: None)
        first.close(lambda: None)
        second.open()
