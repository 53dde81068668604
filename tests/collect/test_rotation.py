"""Tests of following files that are renamed, copied, emptied, removed, created again; one change at a time."""

from __future__ import annotations

from tests.collect.following import LONG, FollowerTestCase


class RotationTests(FollowerTestCase):
    """Files that are renamed, copied, emptied, removed, created again."""

    def test_renamed(self) -> None:
        """What is left of a renamed file is read first, though no pattern matches its new name, and what comes late."""
        self.disk.append("/l/a.log", b"one\n")
        self.lines()
        self.disk.append("/l/a.log", b"two\n")
        self.disk.rename("/l/a.log", "/l/a.log.1")
        self.disk.append("/l/a.log", b"three\n")
        self.assertEqual(self.lines(), [b"two", b"three"])
        self.noticed("/l/a.log is now /l/a.log.1, 4 bytes are left to read")
        self.disk.append("/l/a.log.1", b"late\n")
        self.disk.append("/l/a.log", b"four\n")
        self.assertEqual(self.lines(), [b"late", b"four"])

    def test_renamed_while_away(self) -> None:
        """A file that was renamed while no collector ran is found by what it is."""
        self.disk.append("/l/a.log", b"one\n")
        self.lines()
        self.disk.append("/l/a.log", b"two\n")
        self.disk.rename("/l/a.log", "/l/a.log.1")
        self.disk.append("/l/a.log", b"three\n")
        self.again()
        self.assertEqual(self.lines(), [b"two", b"three"])

    def test_inode_again(self) -> None:
        """A new file that got the inode of one that is gone is read from its start, however long it is."""
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

    def test_removed(self) -> None:
        """What is open is read to its end, and its unfinished line is taken, before it is let go of."""
        self.disk.append("/l/a.log", b"one\n")
        self.lines()
        self.disk.append("/l/a.log", b"two\nunfinished")
        self.disk.remove("/l/a.log")
        self.assertEqual(self.lines(), [b"two"])
        self.assertEqual(self.disk.open_now, 1)
        self.assertEqual(self.lines(60.0), [b"unfinished"])
        self.assertEqual(self.lines(60.0), [])
        self.assertEqual((self.disk.open_now, self.follower.catalogue.sources), (0, {}))
        self.noticed()

    def test_removed_unread(self) -> None:
        """What is gone before it was read is reported with its bytes."""
        self.disk.append("/l/a.log", b"one\n")
        self.follower.step(read=False)
        self.disk.crash()
        self.again()
        self.disk.remove("/l/a.log")
        self.assertEqual(self.lines(), [])
        self.noticed("/l/a.log is gone: it was read up to byte 0; at least 4 bytes are lost")
        self.assertEqual(self.follower.catalogue.lost, 4)

    def test_opened_though_not_read(self) -> None:
        """While nothing may be read new files are opened, as long as there is room: what is open is not lost."""
        self.disk.append("/l/a.log", b"one\n")
        self.follower.step(read=False)
        self.disk.remove("/l/a.log")
        self.assertEqual(self.lines(), [b"one"])

    def test_few_open(self) -> None:
        """No more files are open than allowed; those without a name are the last to be closed."""
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

    def test_emptied(self) -> None:
        """A file that was emptied is read from its start, also if it is longer than before by then."""
        for more in (b"new\n", LONG * 3):
            self.setUp()
            self.disk.append("/l/a.log", b"one\ntwo\n")
            self.lines()
            self.disk.truncate("/l/a.log")
            self.disk.append("/l/a.log", more)
            self.assertEqual(self.lines(), more.split(b"\n")[:-1])
            self.noticed("/l/a.log was truncated or overwritten, reading from its start")
            self.assertEqual(self.follower.catalogue.lost, 0)

    def test_emptied_unread(self) -> None:
        """What was seen and not read before a file was emptied is reported."""
        self.disk.append("/l/a.log", b"one\n")
        self.lines()
        self.disk.append("/l/a.log", b"two\n")
        self.now += 1
        self.follower.step(read=False)
        self.disk.truncate("/l/a.log")
        self.assertEqual(self.lines(), [])
        self.noticed("read up to byte 4; at least 4 bytes after that are lost")

    def test_copied_and_emptied(self) -> None:
        """The copy of an emptied file is gone on with, whether a pattern matches it or not, and sent no second time."""
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
            self.noticed("/l/a.log was truncated; /l/a.log.1 is its copy, 5 bytes are left to read")
            self.assertEqual(self.lines(), [])

    def test_copy_that_ends_early(self) -> None:
        """A copy is sent no second time when lines came behind its end that were read before the file was emptied."""
        for pattern in ("/l/*.log", "/l/*"):
            self.setUp()
            self.begin(patterns=[pattern])
            self.disk.append("/l/a.log", LONG * 20)
            self.lines()
            self.disk.copy("/l/a.log", "/l/a.log.1")
            self.disk.append("/l/a.log", b"late\n")
            self.assertEqual(self.lines(), [b"late"])
            (source,) = self.follower.catalogue.sources.values()
            source.acknowledged = source.mark
            self.disk.truncate("/l/a.log")
            self.disk.append("/l/a.log", b"new\n")
            self.assertEqual(self.lines() + self.lines(), [b"new"], pattern)

    def test_copy_seen_first(self) -> None:
        """A copy that is found before its original is emptied is not read, also by the next collector."""
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

    def test_copy_goes_its_own_way(self) -> None:
        """A copy that is written to is a file of its own from there on."""
        self.begin(patterns=["/l/*"])
        self.disk.append("/l/a.log", LONG * 2)
        self.lines()
        self.disk.copy("/l/a.log", "/l/a.log.bak")
        self.assertEqual(self.lines(), [])
        next(iter(self.follower.catalogue.sources.values())).acknowledged = next(
            iter(self.follower.catalogue.sources.values())
        ).mark
        self.disk.append("/l/a.log.bak", b"its own\n")
        self.disk.append("/l/a.log", b"the other's\n")
        self.assertEqual(sorted(self.lines()), [b"its own", b"the other's"])

    def test_copy_left_over(self) -> None:
        """Of a copy whose original is gone nothing is read that was acknowledged, and everything else is."""
        for acknowledged, expected in ((True, []), (False, [LONG[:-1], LONG[:-1]])):
            self.setUp()
            self.begin(patterns=["/l/*"], gone=0.0)
            self.disk.append("/l/a.log", LONG * 3)
            self.lines()
            (source,) = self.follower.catalogue.sources.values()
            self.disk.copy("/l/a.log", "/l/a.log.bak", len(LONG) * 2)
            self.assertEqual(self.lines(), [])
            if acknowledged:
                source.acknowledged = source.mark
            self.disk.remove("/l/a.log")
            self.assertEqual(self.lines() + self.lines(), expected)
            self.disk.append("/l/a.log.bak", b"x\n")
            self.assertEqual(self.lines(), [b"x"])

    def test_copy_with_used_inode(self) -> None:
        """A copy may get the inode of a file that was followed and is gone."""
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

    def test_renamed_between_look_and_read(self) -> None:
        """A file is not taken for the one that has its name now."""
        self.begin(open_files=1)
        self.disk.append("/l/a.log", b"one\n")
        self.disk.append("/l/b.log", b"two\n")
        self.follower.step(read=False)
        self.disk.rename("/l/b.log", "/l/b.log.1")
        self.disk.append("/l/b.log", b"three\nfour\n")
        self.assertEqual(sorted(self.lines(0.0) + self.lines()), [b"four", b"one", b"three", b"two"])

    def test_written_anew(self) -> None:
        """A file that was replaced by one with the same beginning, as editors and restores do, is gone on with."""
        self.disk.append("/l/a.log", LONG)
        self.lines()
        self.disk.copy("/l/a.log", "/l/.tmp")
        self.disk.append("/l/.tmp", b"more\n")
        self.disk.rename("/l/.tmp", "/l/a.log")
        self.assertEqual(self.lines(), [b"more"])
        self.noticed("/l/a.log was replaced; /l/a.log is its copy")

    def test_alike(self) -> None:
        """Two files with the same content that are there from the beginning are both read."""
        self.begin(patterns=["/l/*"])
        self.disk.append("/l/a.log", LONG * 3)
        self.disk.append("/l/a.log.1", LONG * 3)
        self.assertEqual(len(self.lines()), 6)
