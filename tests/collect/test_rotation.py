"""Tests of following files that are renamed, copied, emptied, removed, made again; one change at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from logd.collect.files import OpenFile, Seen
from logd.collect.rotation import copies
from logd.collect.rotation.copies import is_copy
from tests.collect.doubles import MemoryDisk
from tests.collect.followers import LONG, FollowerTestCase


class RotationTests(FollowerTestCase):
    """Files that are renamed, copied, emptied, removed and made again while a collector runs."""

    def test_a_renamed_file_is_read_to_its_end(self) -> None:
        """The rest comes first, also lines written late and under a name that no pattern matches."""
        self.disk.append("/l/a.log", b"one\n")
        self.lines()
        self.disk.append("/l/a.log", b"two\n")
        self.disk.rename("/l/a.log", "/l/a.log.1")
        self.disk.append("/l/a.log", b"three\n")
        self.assertEqual(self.lines(), [b"two", b"three"])
        self.noticed("/l/a.log is now /l/a.log.1, 4 bytes left to read")
        self.disk.append("/l/a.log.1", b"late\n")
        self.disk.append("/l/a.log", b"four\n")
        self.assertEqual(self.lines(), [b"late", b"four"])

    def test_a_file_renamed_in_an_absence_is_found(self) -> None:
        """Inode and content identify the file."""
        self.disk.append("/l/a.log", b"one\n")
        self.lines()
        self.disk.append("/l/a.log", b"two\n")
        self.disk.rename("/l/a.log", "/l/a.log.1")
        self.disk.append("/l/a.log", b"three\n")
        self.again()
        self.assertEqual(self.lines(), [b"two", b"three"])

    def test_a_new_file_with_an_old_inode_is_read_whole(self) -> None:
        """The content tells it from the file that is gone, however long it is."""
        self.disk.append("/l/a.log", b"one\n")
        self.lines()
        inode = self.disk.names["/l/a.log"].inode
        self.follower.close()
        self.disk.remove("/l/a.log")
        self.disk.append("/l/a.log", b"two\nand more\n")
        self.assertEqual(self.disk.names["/l/a.log"].inode, inode)
        self.assertEqual(self.lines(), [b"two", b"and more"])
        self.noticed("was truncated or overwritten, reading from its start")
        self.again()
        self.disk.remove("/l/a.log")
        self.disk.append("/l/a.log", b"six\nand more\n")
        self.assertEqual(self.lines(), [b"six", b"and more"])
        self.noticed("was truncated or overwritten: it was read up to byte 13; any later lines, written while")

    def test_a_removed_open_file_is_read_to_its_end(self) -> None:
        """The unfinished line at the end is taken before the file is closed."""
        self.disk.append("/l/a.log", b"one\n")
        self.lines()
        self.disk.append("/l/a.log", b"two\nunfinished")
        self.disk.remove("/l/a.log")
        self.assertEqual(self.lines(), [b"two"])
        self.assertEqual(self.disk.open_now, 1)
        self.assertEqual(self.lines(60.0), [b"unfinished"])
        self.assertEqual(self.lines(60.0), [])
        self.assertEqual((self.disk.open_now, self.follower.tracker.sources), (0, {}))
        self.noticed()

    def test_a_file_removed_unread_is_reported(self) -> None:
        """The report gives the bytes that are lost."""
        self.disk.append("/l/a.log", b"one\n")
        self.follower.step(read=False)
        self.disk.crash()
        self.again()
        self.disk.remove("/l/a.log")
        self.assertEqual(self.lines(), [])
        self.noticed("/l/a.log is gone: it was read up to byte 0; lost: at least 4 bytes")
        self.assertEqual(self.follower.tracker.lost, 4)

    def test_a_file_emptied_while_its_copy_is_compared_is_not_lost(self) -> None:
        """The copy is then followed on its own, from its start, so the lines of the emptied file are not lost."""
        self.begin(patterns=["/l/*"])
        self.disk.append("/l/a.log", LONG * 30)
        self.follower.step(read=False)
        self.disk.copy("/l/a.log", "/l/a.log.1")

        def empty_and_compare(*given: Any) -> bool:
            self.patch(copies, "is_copy", is_copy)
            self.disk.truncate("/l/a.log")
            return is_copy(*given)

        self.patch(copies, "is_copy", empty_and_compare)
        self.now += 1.0
        self.follower.step(read=False)
        self.disk.append("/l/a.log", b"later\n")
        self.assertEqual(self.lines() + self.lines(), [LONG[:-1]] * 30 + [b"later"])
        self.noticed("/l/a.log was truncated; /l/a.log.1 is its copy, and is read on its own")
        self.assertEqual(self.follower.tracker.losses, 0)

    def test_a_copy_that_was_listed_before_it_was_finished(self) -> None:
        """It grows to its full size while the folder is listed, and the original is emptied before it is listed."""
        self.begin(patterns=["/l/*"])
        content = LONG * 30
        self.disk.append("/l/a.log", content)
        self.follower.step(read=False)
        self.disk.append("/l/a.log.1", content[:20])  # too short to be known as a copy
        self.now += 1.0
        self.follower.step(read=False)
        self.disk.append("/l/a.log.1", content[20:100])
        find = MemoryDisk.find

        def finish_and_find(disk: MemoryDisk, patterns: Sequence[str]) -> list[Seen]:
            self.patch(MemoryDisk, "find", find)
            listed = [seen for seen in find(disk, patterns) if seen.path == "/l/a.log.1"]
            disk.append("/l/a.log.1", content[100:])
            disk.truncate("/l/a.log")
            return listed + [seen for seen in find(disk, patterns) if seen.path == "/l/a.log"]

        self.patch(MemoryDisk, "find", finish_and_find)
        self.now += 1.0
        self.notices += self.follower.step(read=False).notices
        self.disk.append("/l/a.log", b"later\n")
        self.assertEqual(self.lines() + self.lines(), [LONG[:-1]] * 30 + [b"later"])
        self.noticed("/l/a.log was truncated; /l/a.log.1 is its copy, and is read on its own")
        self.assertEqual(self.follower.tracker.losses, 0)

    def test_a_file_emptied_between_listing_and_opening_is_not_lost(self) -> None:
        """Its lines are in the copy; only bytes that were there when the file was opened can be lost with it."""
        self.begin(patterns=["/l/*"])
        self.disk.append("/l/a.log", LONG * 30)
        opened = MemoryDisk.open

        def rotate_and_open(disk: MemoryDisk, path: str) -> OpenFile:
            self.patch(MemoryDisk, "open", opened)
            disk.copy("/l/a.log", "/l/a.log.1")
            disk.truncate("/l/a.log")
            return opened(disk, path)

        self.patch(MemoryDisk, "open", rotate_and_open)
        self.follower.step(read=False)
        self.again()
        self.disk.append("/l/a.log", b"later\n")
        self.assertEqual(self.lines() + self.lines(), [LONG[:-1]] * 30 + [b"later"])
        self.assertEqual(self.follower.tracker.losses, 0)

    def test_a_file_emptied_before_its_first_reading_may_have_a_copy(self) -> None:
        """Nothing of it is known but its size: a new file beside it that is as long is taken for the copy."""
        self.begin(patterns=["/l/*"])
        self.disk.append("/l/a.log", LONG * 30)
        self.disk.denied.add("/l/a.log")
        self.follower.step(read=False)
        self.notices.clear()
        self.disk.denied.clear()
        self.again()
        self.disk.copy("/l/a.log", "/l/a.log.1")
        self.disk.truncate("/l/a.log")
        self.disk.append("/l/a.log", b"later\n")
        self.assertEqual(self.lines() + self.lines(), [LONG[:-1]] * 30 + [b"later"])
        self.noticed("/l/a.log was truncated; /l/a.log.1 may be its copy, and is read from its start")
        self.assertEqual(self.follower.tracker.losses, 0)

    def test_a_file_emptied_before_its_first_reading_is_lost_without_a_copy(self) -> None:
        """A shorter file beside it cannot hold its lines."""
        self.begin(patterns=["/l/*"])
        self.disk.append("/l/a.log", LONG * 30)
        self.disk.denied.add("/l/a.log")
        self.follower.step(read=False)
        self.disk.denied.clear()
        self.again()
        self.disk.truncate("/l/a.log")
        self.disk.append("/l/a.log.1", LONG * 29)
        self.assertEqual(self.lines() + self.lines(), [LONG[:-1]] * 29)
        self.assertEqual(self.follower.tracker.lost, len(LONG) * 30)

    def test_new_files_are_opened_before_they_are_read(self) -> None:
        """An open file is not lost when it is removed while the producer is full."""
        self.disk.append("/l/a.log", b"one\n")
        self.follower.step(read=False)
        self.disk.remove("/l/a.log")
        self.assertEqual(self.lines(), [b"one"])

    def test_open_files_are_bounded(self) -> None:
        """Files without a name are closed last, since they could not be opened again."""
        self.begin(open_files=2)
        for name in "abcd":
            self.disk.append(f"/l/{name}.log", name.encode() + b"\n")
        self.assertEqual(self.lines(), [b"a", b"b", b"c", b"d"])
        self.assertEqual(self.disk.open_now, 2)
        self.disk.append("/l/d.log", b"more of d\n")
        self.disk.remove("/l/d.log")
        self.follower.step(read=False)
        for name in "abc":
            self.disk.append(f"/l/{name}.log", b"more of " + name.encode() + b"\n")
        self.assertEqual(sorted(self.lines()), [b"more of a", b"more of b", b"more of c", b"more of d"])
        self.assertEqual(self.disk.open_now, 2)

    def test_an_emptied_file_is_read_from_its_start(self) -> None:
        """The file may be longer than before when that is seen."""
        for more in (b"new\n", LONG * 3):
            self.setUp()
            self.disk.append("/l/a.log", b"one\ntwo\n")
            self.lines()
            self.disk.truncate("/l/a.log")
            self.disk.append("/l/a.log", more)
            self.assertEqual(self.lines(), more.split(b"\n")[:-1])
            self.noticed("/l/a.log was truncated or overwritten, reading from its start")
            self.assertEqual(self.follower.tracker.lost, 0)

    def test_a_file_emptied_unread_is_reported(self) -> None:
        """Bytes that were seen and not read are lost."""
        self.disk.append("/l/a.log", b"one\n")
        self.lines()
        self.disk.append("/l/a.log", b"two\n")
        self.now += 1
        self.follower.step(read=False)
        self.disk.truncate("/l/a.log")
        self.assertEqual(self.lines(), [])
        self.noticed("read up to byte 4; lost after that: at least 4 bytes")

    def test_the_copy_of_an_emptied_file_is_continued(self) -> None:
        """Lines that were read are not sent again, though a pattern may match the copy."""
        for pattern in ("/l/*.log", "/l/*"):
            self.setUp()
            self.begin(patterns=[pattern])
            self.disk.append("/l/a.log", LONG)
            self.lines()
            self.disk.append("/l/a.log", b"rest\n")
            self.disk.copy("/l/a.log", "/l/a.log.1")
            self.disk.truncate("/l/a.log")
            self.disk.append("/l/a.log", b"new\n")
            self.assertEqual(self.lines(), [b"rest", b"new"])
            self.noticed("/l/a.log was truncated; /l/a.log.1 is its copy, 5 bytes left to read")
            self.assertEqual(self.lines(), [])

    def test_a_copy_that_ends_early_is_not_sent_again(self) -> None:
        """Lines behind its end were read before the file was emptied."""
        for pattern in ("/l/*.log", "/l/*"):
            self.setUp()
            self.begin(patterns=[pattern])
            self.disk.append("/l/a.log", LONG * 20)
            self.lines()
            self.disk.copy("/l/a.log", "/l/a.log.1")
            self.disk.append("/l/a.log", b"late\n")
            self.assertEqual(self.lines(), [b"late"])
            (source,) = self.follower.tracker.sources.values()
            source.acknowledged = source.mark
            self.disk.truncate("/l/a.log")
            self.disk.append("/l/a.log", b"new\n")
            self.assertEqual(self.lines() + self.lines(), [b"new"], pattern)

    def test_a_copy_found_first_is_not_read(self) -> None:
        """The original is not emptied yet; the next collector does not read the copy, either."""
        self.begin(patterns=["/l/*"])
        self.disk.append("/l/a.log", LONG * 5)
        self.lines()
        for count in (0, 100, 200, 355):
            self.disk.copy("/l/a.log", "/l/a.log.1", count)
            self.assertEqual(self.lines(), [])
        self.again()
        self.assertEqual(self.lines(), [])
        self.disk.append("/l/a.log", b"rest\n")
        self.disk.copy("/l/a.log", "/l/a.log.1", 360)
        self.disk.truncate("/l/a.log")
        self.disk.append("/l/a.log", b"new\n")
        self.assertEqual(self.lines(), [b"rest", b"new"])

    def test_a_copy_that_grows_is_a_file_of_its_own(self) -> None:
        """Reading begins where it parts from its original."""
        self.begin(patterns=["/l/*"])
        self.disk.append("/l/a.log", LONG * 2)
        self.lines()
        self.disk.copy("/l/a.log", "/l/a.log.bak")
        self.assertEqual(self.lines(), [])
        next(iter(self.follower.tracker.sources.values())).acknowledged = next(
            iter(self.follower.tracker.sources.values())
        ).mark
        self.disk.append("/l/a.log.bak", b"its own\n")
        self.disk.append("/l/a.log", b"the other's\n")
        self.assertEqual(sorted(self.lines()), [b"its own", b"the other's"])

    def test_a_copy_without_its_original_repeats_nothing(self) -> None:
        """Acknowledged lines are not read in it, and all others are."""
        for acknowledged, expected in ((True, []), (False, [LONG[:-1], LONG[:-1]])):
            self.setUp()
            self.begin(patterns=["/l/*"], gone=0.0)
            self.disk.append("/l/a.log", LONG * 3)
            self.lines()
            (source,) = self.follower.tracker.sources.values()
            self.disk.copy("/l/a.log", "/l/a.log.bak", len(LONG) * 2)
            self.assertEqual(self.lines(), [])
            if acknowledged:
                source.acknowledged = source.mark
            self.disk.remove("/l/a.log")
            self.assertEqual(self.lines() + self.lines(), expected)
            self.disk.append("/l/a.log.bak", b"x\n")
            self.assertEqual(self.lines(), [b"x"])

    def test_a_copy_may_have_a_reused_inode(self) -> None:
        """A file that was followed and is gone had it before."""
        self.begin(open_files=1)
        self.disk.append("/l/b.log", b"gone soon\n")
        self.disk.append("/l/a.log", LONG)
        self.lines()
        self.again()
        inode = self.disk.names["/l/b.log"].inode
        self.disk.remove("/l/b.log")
        self.disk.append("/l/a.log", b"rest\n")
        self.disk.copy("/l/a.log", "/l/b.log")
        self.disk.rename("/l/b.log", "/l/a.log.1")
        self.assertEqual(self.disk.names["/l/a.log.1"].inode, inode)
        self.disk.truncate("/l/a.log")
        self.assertEqual(self.lines(), [b"rest"])

    def test_a_file_is_not_mistaken_for_its_successor(self) -> None:
        """The file is renamed between the look and the reading."""
        self.begin(open_files=1)
        self.disk.append("/l/a.log", b"one\n")
        self.disk.append("/l/b.log", b"two\n")
        self.follower.step(read=False)
        self.disk.rename("/l/b.log", "/l/b.log.1")
        self.disk.append("/l/b.log", b"three\nfour\n")
        self.assertEqual(sorted(self.lines(0.0) + self.lines()), [b"four", b"one", b"three", b"two"])

    def test_a_file_replaced_by_a_longer_copy_is_continued(self) -> None:
        """Editors and restores write a file anew with the same beginning."""
        self.disk.append("/l/a.log", LONG)
        self.lines()
        self.disk.copy("/l/a.log", "/l/.tmp")
        self.disk.append("/l/.tmp", b"more\n")
        self.disk.rename("/l/.tmp", "/l/a.log")
        self.assertEqual(self.lines(), [b"more"])
        self.noticed("/l/a.log was replaced; /l/a.log is its copy")

    def test_files_alike_from_the_beginning_are_both_read(self) -> None:
        """Neither was seen to be a copy."""
        self.begin(patterns=["/l/*"])
        self.disk.append("/l/a.log", LONG * 3)
        self.disk.append("/l/a.log.1", LONG * 3)
        self.assertEqual(len(self.lines()), 6)

    def test_many_files_with_related_names_are_hardly_compared(self) -> None:
        """A new one begins in another way than all the others: opening each of these for each would take hours."""
        self.begin(patterns=["/l/*"])
        for number in range(40):
            self.disk.append(f"/l/part.{1000 + number}", b"%d:" % number + LONG)
        self.lines()
        before = self.disk.openings
        for number in range(40, 80):
            self.disk.append(f"/l/part.{1000 + number}", (b"%d:" % number + LONG) * (number % 3 + 1))
        self.assertEqual(len(self.lines()), 40 + sum(number % 3 for number in range(40, 80)))
        self.assertLess(self.disk.openings - before, 4 * 80)
        self.disk.copy("/l/part.1079", "/l/part.2000")
        self.assertEqual(self.lines(), [])

    def test_many_empty_or_unreadable_files_are_hardly_compared(self) -> None:
        """Nothing is known of the first forty, or of those that are new: each might be a copy of all the others."""
        for denied, expected in ((range(0), 80), (range(40), 80), (range(40, 80), 0)):
            self.setUp()
            self.begin(patterns=["/l/*"])
            self.disk.denied.update(f"/l/part.{1000 + number}" for number in denied)
            for number in range(40):
                self.disk.append(f"/l/part.{1000 + number}", LONG if denied else b"")
            self.lines()
            before = self.disk.openings
            for number in range(40, 80):
                self.disk.append(f"/l/part.{1000 + number}", b"%d:" % number + LONG * 2)
            self.assertEqual(len(self.lines()), expected)
            self.assertLess(self.disk.openings - before, 6 * 80, denied)

    def test_many_files_that_are_emptied_at_once_need_few_listings(self) -> None:
        """Their copies are among the files that were found: thousands of logs would each list all files again."""
        for number in range(40):
            self.disk.append(f"/l/{number}.log", b"%d:" % number + LONG)
        self.lines()
        listed: list[str] = []
        really = self.disk.in_folder

        def note(folder: str, wanted: Callable[[str, int], bool]) -> list[Seen] | None:
            listed.append(folder)
            return really(folder, wanted)

        self.patch(MemoryDisk, "in_folder", lambda _, folder, wanted: note(folder, wanted))
        for number in range(40):
            self.disk.copy(f"/l/{number}.log", f"/l/{number}.log.1")
            self.disk.truncate(f"/l/{number}.log")
        self.assertEqual(self.lines(), [])
        self.assertEqual((len(self.notices), self.follower.tracker.losses), (40, 0))
        self.assertIn("was truncated; /l/0.log.1 is its copy, 0 bytes left to read", self.notices[0])
        self.assertLess(len(listed), 5)
