"""Tests of rotations that happen while no collector runs."""

from __future__ import annotations

from tests.collect.following import LONG, FollowerTestCase


class AwayTestCase(FollowerTestCase):
    """A log that was read, and a collector that ends."""

    def setUp(self) -> None:
        """Read the first lines of a log."""
        super().setUp()
        self.disk.append("/l/a.log", LONG)
        self.assertEqual(self.lines(), [LONG[:-1]])
        self.disk.append("/l/a.log", b"first\n")

    def rotate(self, kept: int = 9, name: str = "/l/a.log") -> None:
        """Rename as logrotate does, and write a line to the new file."""
        self.disk.remove(f"{name}.{kept}")
        for number in range(kept - 1, 0, -1):
            if f"{name}.{number}" in self.disk.names:
                self.disk.rename(f"{name}.{number}", f"{name}.{number + 1}")
        self.disk.rename(name, f"{name}.1")
        self.disk.create(name)

    def said(self, *words: str) -> None:
        """A loss was said with these words; none without."""
        losses = [notice for notice in self.notices if "lost" in notice]
        self.assertEqual(len(losses), bool(words), self.notices)
        for word in words:
            self.assertIn(word, losses[0])
        self.assertEqual(self.follower.tracker.losses, bool(words))


class NumberedTests(AwayTestCase):
    """app.log.1, app.log.2, and so on."""

    def test_twice(self) -> None:
        """The file between the one that was read and the new one is found by its name and read between them, once."""
        for pattern in ("/l/*.log", "/l/a.log", "/l/*"):
            self.setUp()
            self.begin(patterns=[pattern], restored=None)
            self.lines()
            self.rotate()
            self.disk.append("/l/a.log", b"second\n")
            self.rotate()
            self.disk.append("/l/a.log", b"third\n")
            self.rotate()
            self.disk.append("/l/a.log", b"fourth\n")
            self.again()
            self.assertEqual(self.lines(), [b"second", b"third", b"fourth"])
            self.said()
            self.again()
            self.assertEqual(self.lines(), [])
            self.assertEqual({source.name for source in self.follower.tracker.sources.values()}, {"/l/a.log"})

    def test_rest(self) -> None:
        """What is left of the file that was read comes first."""
        self.rotate()
        self.disk.append("/l/a.log", b"second\n")
        self.rotate()
        self.again()
        self.assertEqual(self.lines(), [b"first", b"second"])

    def test_extension(self) -> None:
        """The number may stand before the extension, and the names be matched by the pattern."""
        for ending in ("", "*"):
            self.setUp()
            self.begin(patterns=[f"/l/a{ending}.log"])
            self.lines()
            self.disk.rename("/l/a.log", "/l/a.10.log")
            for number in range(9, 0, -1):
                self.disk.append(f"/l/a.{number}.log", b"%d\n" % number)
            self.disk.append("/l/a.log", b"0\n")
            self.again()
            self.assertEqual(self.lines(), [b"%d" % number for number in range(9, -1, -1)])
            self.said()

    def test_ascending(self) -> None:
        """Where the highest number is the newest file, as the times of the files say, that is the order."""
        self.disk.rename("/l/a.log", "/l/a.log.7")
        for number in (8, 9, 10, 11):
            self.disk.append(f"/l/a.log.{number}", b"%d\n" % number)
        self.disk.append("/l/a.log", b"12\n")
        self.again()
        self.assertEqual(self.lines(), [b"first", b"8", b"9", b"10", b"11", b"12"])
        self.said()

    def test_before(self) -> None:
        """Files that were rotated before their name was followed are not read, then or later, under whatever name."""
        self.setUp()
        self.disk = type(self.disk)()
        self.disk.append("/l/a.log.1", LONG + b"old\n")
        self.disk.append("/l/a.log.2.gz", b"older")
        self.disk.append("/l/a.log", b"new\n")
        self.begin()
        self.assertEqual(self.lines(), [b"new"])
        for count in range(3):
            self.rotate()
            if count == 0:
                self.disk.rename("/l/a.log.2.gz", "/l/a.log.3.gz")
            self.disk.append("/l/a.log", b"%d\n" % count)
            if count == 1:
                self.again()
            self.assertEqual(self.lines(), [b"%d" % count])
        self.said()

    def test_inode_of_passed(self) -> None:
        """A new rotated file that got the inode of one that was not to be read is read."""
        self.disk.append("/l/a.log.1", LONG + b"old\n")
        self.begin()
        self.lines()
        inode = self.disk.names["/l/a.log.1"].inode
        self.again()
        self.disk.remove("/l/a.log.1")
        self.disk.rename("/l/a.log", "/l/a.log.2")
        self.disk.append("/l/a.log.1", LONG + b"between\n")
        self.assertEqual(self.disk.names["/l/a.log.1"].inode, inode)
        self.assertEqual(self.lines(), [LONG[:-1], b"between"])
        self.said()

    def test_new_name(self) -> None:
        """A log that came and was rotated while no collector ran is read from its first file on; with patterns that
        are new to the state nothing but the log itself is."""
        for pattern, expected in (("/l/*.log", [b"1", b"2", b"3"]), ("/l/[ab].log", [b"3"])):
            self.setUp()
            self.lines()
            self.disk.append("/l/b.log.2", b"1\n")
            self.disk.append("/l/b.log.1", b"2\n")
            self.disk.append("/l/b.log", b"3\n")
            self.again(patterns=[pattern])
            self.assertEqual(self.lines(), expected)

    def test_new_name_gone(self) -> None:
        """Such a log is read also when nothing has its name now; files that only look alike are not."""
        self.lines()
        self.disk.append("/l/b.log.1", b"1\n")
        self.disk.append("/l/a.log.d.1", b"none of it\n")
        self.disk.append("/l/a-2.log.copy", b"nor this\n")
        self.again()
        self.assertEqual(self.lines(), [b"1"])

    def test_no_new_file(self) -> None:
        """A log whose program makes no new file before it has a line is read to its end."""
        self.rotate()
        self.disk.append("/l/a.log", b"second\n")
        self.disk.rename("/l/a.log.1", "/l/a.log.2")
        self.disk.rename("/l/a.log", "/l/a.log.1")
        self.again()
        self.assertEqual(self.lines(), [b"first", b"second"])
        self.said()

    def test_excluded(self) -> None:
        """What is excluded is not looked for, by its name or by the log's."""
        self.lines()
        self.disk.append("/l/b.log.1", b"1\n")
        self.rotate()
        self.disk.append("/l/a.log", b"second\n")
        self.rotate()
        self.again(excluded=lambda path: path in ("/l/a.log.1", "/l/b.log"))
        self.assertEqual(self.lines(), [])
        self.said("/l/a.log.1 is gone")

    def test_old_state(self) -> None:
        """A state of a release that knew nothing of rotated files: those newer than the file that was read are read."""
        self.lines()
        self.disk.append("/l/a.log.1", b"old\n")
        self.rotate()
        self.disk.append("/l/a.log", b"second\n")
        self.rotate()
        self.disk.append("/l/a.log", b"third\n")
        state = self.follower.tracker.state
        self.disk.crash()
        self.begin(type(state)([*state.sources]))
        self.assertEqual(self.lines(), [b"second", b"third"])


class DatedTests(AwayTestCase):
    """app.log-20111111 and its like."""

    def test_dates(self) -> None:
        """Dates of every common form are read in their order."""
        forms = (
            ("/l/a.log-20111109", "/l/a.log-20111110", "/l/a.log-20111111"),
            ("/l/a.log.2011-11-09", "/l/a.log.2011-11-10", "/l/a.log.2011-11-11"),
            ("/l/a-20111109.log", "/l/a-20111110.log", "/l/a-20111111.log"),
            ("/l/a.log-2011111109", "/l/a.log-2011111110", "/l/a.log-2011111111"),
            ("/l/a.log-1320969600", "/l/a.log-1321056000", "/l/a.log-1321142400"),
            ("/l/a.2011-11-11.2.log", "/l/a.2011-11-11.9.log", "/l/a.2011-11-11.10.log"),
            ("/l/a.log.2011-11-11_09-00", "/l/a.log.2011-11-11_10-00", "/l/a.log.2011-11-12_00-00"),
        )
        for first, second, third in forms:
            self.setUp()
            self.disk.rename("/l/a.log", first)
            self.disk.append(third, b"third\n")
            self.disk.append(second, b"second\n")
            self.disk.append("/l/a.log", b"fourth\n")
            self.again(patterns=["/l/a.log"])
            self.assertEqual(self.lines()[-4:], [b"first", b"second", b"third", b"fourth"], first)
            self.said()


class CopiedTests(AwayTestCase):
    """copytruncate."""

    def test_twice(self) -> None:
        """The copy is found by its content, the one after it by its name."""
        self.disk.copy("/l/a.log", "/l/a.log.2")
        self.disk.truncate("/l/a.log")
        self.disk.append("/l/a.log.1", b"second\n")
        self.disk.append("/l/a.log", b"third\n")
        self.again()
        self.assertEqual(self.lines(), [b"first", b"second", b"third"])
        self.said()

    def test_short(self) -> None:
        """Of a copy that cannot be told for sure the few bytes are repeated, and nothing is said to be lost."""
        self.disk = type(self.disk)()
        self.begin()
        self.disk.append("/l/a.log", b"one\n")
        self.lines()
        self.again()
        self.disk.append("/l/a.log", b"two\n")
        self.disk.copy("/l/a.log", "/l/a.log.1")
        self.disk.truncate("/l/a.log")
        self.disk.append("/l/a.log", b"three\n")
        self.assertEqual(self.lines(), [b"one", b"two", b"three"])
        self.said()

    def test_unread(self) -> None:
        """A log of which nothing was read yet, emptied twice, is read from its first copy on."""
        self.disk = type(self.disk)()
        self.disk.create("/l/a.log")
        self.begin()
        self.assertEqual(self.lines(), [])
        self.again()
        self.disk.append("/l/a.log.2", b"one\n")
        self.disk.append("/l/a.log.1", b"two\n")
        self.disk.append("/l/a.log", b"three\n")
        self.assertEqual(self.lines(), [b"one", b"two", b"three"])

    def test_lost(self) -> None:
        """Without the copy it is said that something may be lost."""
        self.lines()
        self.again()
        self.disk.truncate("/l/a.log")
        self.disk.append("/l/a.log.1", b"second\n")
        self.disk.append("/l/a.log", b"third\n")
        self.assertEqual(self.lines(), [b"second", b"third"])
        self.said("/l/a.log was truncated or overwritten: it was read up to byte 77; any later lines, written while")


class LostTests(AwayTestCase):
    """What is not there any more, or compressed."""

    def test_removed(self) -> None:
        """Where even the file that was read is gone, it is said that what came behind is."""
        self.lines()
        for text in (b"second\n", b"third\n", b"fourth\n"):
            self.rotate(kept=2)
            self.disk.append("/l/a.log", text)
        self.again()
        self.assertEqual(self.lines(), [b"second", b"third", b"fourth"][-3:])
        self.said("/l/a.log is gone: it was read up to byte 77; any later lines, written while")

    def test_number_missing(self) -> None:
        """A number that is missing between the file that was read and the log is a file that is lost."""
        for text in (b"second\n", b"third\n"):
            self.rotate()
            self.disk.append("/l/a.log", text)
        self.disk.remove("/l/a.log.1")
        self.again()
        self.assertEqual(self.lines(), [b"first", b"third"])
        self.said("/l/a.log.1 is gone and was never read")

    def test_compressed(self) -> None:
        """A file that was compressed before anybody read it is lost, with the bytes that it had; and once."""
        self.rotate()
        self.disk.append("/l/a.log", b"second\n")
        self.rotate()
        self.disk.append("/l/a.log", b"third\n")
        self.disk.compress("/l/a.log.1")
        self.again()
        self.assertEqual(self.lines(), [b"first", b"third"])
        self.said("/l/a.log.1.gz was compressed before it was read, and compressed files are skipped: 7 bytes are")
        self.assertEqual(self.follower.tracker.lost, 7)
        self.notices.clear()
        self.again()
        self.assertEqual(self.lines(), [])
        self.said()

    def test_compressed_beside_nothing(self) -> None:
        """So is one whose name no file has any more, by what is known of those before it, under any pattern."""
        self.begin(patterns=["/l/a.log*"])
        self.lines()
        self.disk.rename("/l/a.log", "/l/a.1.log")
        self.disk.compress("/l/a.1.log")
        self.again()
        self.assertEqual(self.lines(), [])
        self.notices.clear()
        self.disk.rename("/l/a.1.log.gz", "/l/a.2.log.gz")
        self.disk.append("/l/a.1.log", b"second\n")
        self.disk.compress("/l/a.1.log")
        self.again()
        self.assertEqual(self.lines(), [])
        self.said("/l/a.1.log.gz was compressed before it was read, and compressed files are skipped: 7 bytes are")

    def test_rest_compressed(self) -> None:
        """What was not read of a compressed file is lost; its length is known."""
        for text in (b"second\n", b"third\n"):
            self.rotate()
            self.disk.append("/l/a.log", text)
        self.disk.compress("/l/a.log.2")
        self.again()
        self.assertEqual(self.lines(), [b"second", b"third"])
        self.said(
            "/l/a.log was compressed (now /l/a.log.2.gz, which is skipped): it was read up to byte 71; at least 6 bytes"
        )
        self.assertEqual(self.follower.tracker.lost, 6)

    def test_read_and_compressed(self) -> None:
        """A file that was read to its end may be compressed, with or without a collector, in any format, and again."""
        for ending in (".gz", ".zst"):
            for away in (False, True):
                self.setUp()
                self.lines()
                for count in range(4):
                    if away:
                        self.again()
                    self.rotate()
                    for number in range(9, 1, -1):
                        if f"/l/a.log.{number - 1}{ending}" in self.disk.names:
                            self.disk.rename(f"/l/a.log.{number - 1}{ending}", f"/l/a.log.{number}{ending}")
                    self.disk.compress("/l/a.log.1", ending)
                    self.disk.append("/l/a.log", b"%d\n" % count)
                    self.assertEqual(self.lines(), [b"%d" % count])
                self.said()

    def test_removed_and_read(self) -> None:
        """A rotated file that was read may be removed, and so may a file that nothing took the name of."""
        self.rotate()
        self.lines()
        self.again()
        self.disk.remove("/l/a.log.1")
        self.lines()
        self.said()
        self.again()
        self.disk.remove("/l/a.log")
        self.lines()
        self.said()
