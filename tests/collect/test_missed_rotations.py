"""Tests of rotations that happen while no collector runs."""

from __future__ import annotations

from tests.collect.followers import LONG, FollowerTestCase


class MissedRotationTestCase(FollowerTestCase):
    """A log that was read, and a collector that ends after that."""

    def setUp(self) -> None:
        """Read the first line of a log, and append another one."""
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
        """Assert that one loss was reported, with these words; without words that none was."""
        losses = [notice for notice in self.notices if "lost" in notice]
        self.assertEqual(len(losses), bool(words), self.notices)
        for word in words:
            self.assertIn(word, losses[0])
        self.assertEqual(self.follower.tracker.losses, bool(words))


class NumberedTests(MissedRotationTestCase):
    """Rotated files named app.log.1, app.log.2, and so on."""

    def test_files_rotated_in_an_absence_are_read_in_order(self) -> None:
        """Each is found by its name and read once, between the file that was read and the new one."""
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

    def test_the_rest_of_the_followed_file_comes_first(self) -> None:
        """The file was renamed twice, and had been read in part before."""
        self.rotate()
        self.disk.append("/l/a.log", b"second\n")
        self.rotate()
        self.again()
        self.assertEqual(self.lines(), [b"first", b"second"])

    def test_a_number_may_stand_before_the_extension(self) -> None:
        """The rotated files may then match the pattern themselves."""
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

    def test_numbers_may_ascend_with_time(self) -> None:
        """The times of the files say that the highest number is the newest."""
        self.disk.rename("/l/a.log", "/l/a.log.7")
        for number in (8, 9, 10, 11):
            self.disk.append(f"/l/a.log.{number}", b"%d\n" % number)
        self.disk.append("/l/a.log", b"12\n")
        self.again()
        self.assertEqual(self.lines(), [b"first", b"8", b"9", b"10", b"11", b"12"])
        self.said()

    def test_files_rotated_before_following_are_not_read(self) -> None:
        """Later rotations give them other names, and they stay unread."""
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

    def test_a_reused_inode_does_not_hide_a_new_file(self) -> None:
        """The inode had belonged to a rotated file that was not to be read."""
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

    def test_a_log_new_in_an_absence_is_read_whole(self) -> None:
        """Reading begins with its oldest file. With patterns new to the state, only the log itself is read."""
        for pattern, expected in (("/l/*.log", [b"1", b"2", b"3"]), ("/l/[ab].log", [b"3"])):
            self.setUp()
            self.lines()
            self.disk.append("/l/b.log.2", b"1\n")
            self.disk.append("/l/b.log.1", b"2\n")
            self.disk.append("/l/b.log", b"3\n")
            self.again(patterns=[pattern])
            self.assertEqual(self.lines(), expected)

    def test_a_rotated_log_without_a_current_file_is_read(self) -> None:
        """Files that only look alike are not."""
        self.lines()
        self.disk.append("/l/b.log.1", b"1\n")
        self.disk.append("/l/a.log.d.1", b"none of it\n")
        self.disk.append("/l/a-2.log.copy", b"nor this\n")
        self.again()
        self.assertEqual(self.lines(), [b"1"])

    def test_a_log_without_a_new_file_is_read_whole(self) -> None:
        """Some programs make the new file only with its first line."""
        self.rotate()
        self.disk.append("/l/a.log", b"second\n")
        self.disk.rename("/l/a.log.1", "/l/a.log.2")
        self.disk.rename("/l/a.log", "/l/a.log.1")
        self.again()
        self.assertEqual(self.lines(), [b"first", b"second"])
        self.said()

    def test_excluded_files_are_not_looked_for(self) -> None:
        """The rotated file's name may be excluded, or the log's."""
        self.lines()
        self.disk.append("/l/b.log.1", b"1\n")
        self.rotate()
        self.disk.append("/l/a.log", b"second\n")
        self.rotate()
        self.again(excluded=lambda path: path in ("/l/a.log.1", "/l/b.log"))
        self.assertEqual(self.lines(), [])
        self.said("/l/a.log.1 is gone")

    def test_a_state_without_passed_files_is_read(self) -> None:
        """An earlier release kept none: rotated files newer than the one that was read are read."""
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


class DatedTests(MissedRotationTestCase):
    """Rotated files named app.log-20111111 and the like."""

    def test_dates_of_every_common_form_are_ordered(self) -> None:
        """Read in another order, lines would reach the topic in that order."""
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


class CopiedTests(MissedRotationTestCase):
    """Logs that are copied and emptied, as by copytruncate."""

    def test_a_copy_is_found_by_its_content(self) -> None:
        """The file after it is found by its name."""
        self.disk.copy("/l/a.log", "/l/a.log.2")
        self.disk.truncate("/l/a.log")
        self.disk.append("/l/a.log.1", b"second\n")
        self.disk.append("/l/a.log", b"third\n")
        self.again()
        self.assertEqual(self.lines(), [b"first", b"second", b"third"])
        self.said()

    def test_a_copy_too_short_to_identify_is_repeated(self) -> None:
        """A few lines come twice, and nothing is reported lost."""
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

    def test_an_unread_log_is_read_from_its_first_copy(self) -> None:
        """Nothing of it had been read, and it was emptied twice."""
        self.disk = type(self.disk)()
        self.disk.create("/l/a.log")
        self.begin()
        self.assertEqual(self.lines(), [])
        self.again()
        self.disk.append("/l/a.log.2", b"one\n")
        self.disk.append("/l/a.log.1", b"two\n")
        self.disk.append("/l/a.log", b"three\n")
        self.assertEqual(self.lines(), [b"one", b"two", b"three"])

    def test_a_missing_copy_is_a_possible_loss(self) -> None:
        """The report gives the place up to which the log was read."""
        self.lines()
        self.again()
        self.disk.truncate("/l/a.log")
        self.disk.append("/l/a.log.1", b"second\n")
        self.disk.append("/l/a.log", b"third\n")
        self.assertEqual(self.lines(), [b"second", b"third"])
        self.said("/l/a.log was truncated or overwritten: it was read up to byte 77; any later lines, written while")


class LostTests(MissedRotationTestCase):
    """Files that are gone, or compressed."""

    def test_a_followed_file_that_is_gone_is_a_possible_loss(self) -> None:
        """The file was rotated away and removed, perhaps with later lines in it."""
        self.lines()
        for text in (b"second\n", b"third\n", b"fourth\n"):
            self.rotate(kept=2)
            self.disk.append("/l/a.log", text)
        self.again()
        self.assertEqual(self.lines(), [b"second", b"third", b"fourth"][-3:])
        self.said("/l/a.log is gone: it was read up to byte 77; any later lines, written while")

    def test_a_missing_number_is_a_lost_file(self) -> None:
        """The file with that number stood between the one that was read and the log."""
        for text in (b"second\n", b"third\n"):
            self.rotate()
            self.disk.append("/l/a.log", text)
        self.disk.remove("/l/a.log.1")
        self.again()
        self.assertEqual(self.lines(), [b"first", b"third"])
        self.said("/l/a.log.1 is gone and was never read")

    def test_a_file_compressed_unread_is_a_loss(self) -> None:
        """The report has its size before compression, and comes once."""
        self.rotate()
        self.disk.append("/l/a.log", b"second\n")
        self.rotate()
        self.disk.append("/l/a.log", b"third\n")
        self.disk.compress("/l/a.log.1")
        self.again()
        self.assertEqual(self.lines(), [b"first", b"third"])
        self.said("/l/a.log.1.gz was compressed before it was read, and compressed files are skipped; lost: 7 bytes")
        self.assertEqual(self.follower.tracker.lost, 7)
        self.notices.clear()
        self.again()
        self.assertEqual(self.lines(), [])
        self.said()

    def test_a_file_compressed_without_its_log_is_a_loss(self) -> None:
        """No file has the log's name any more; those before it are known, under any pattern."""
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
        self.said("/l/a.1.log.gz was compressed before it was read, and compressed files are skipped; lost: 7 bytes")

    def test_the_unread_rest_of_a_compressed_file_is_lost(self) -> None:
        """The length is known, since the file was seen before the absence."""
        for text in (b"second\n", b"third\n"):
            self.rotate()
            self.disk.append("/l/a.log", text)
        self.disk.compress("/l/a.log.2")
        self.again()
        self.assertEqual(self.lines(), [b"second", b"third"])
        self.said(
            "/l/a.log was compressed (now /l/a.log.2.gz, which is skipped): it was read up to byte 71; lost: ",
            "least 6 bytes",
        )
        self.assertEqual(self.follower.tracker.lost, 6)

    def test_a_file_read_to_its_end_may_be_compressed(self) -> None:
        """No loss is reported, with or without a collector, in any format, and after further rotations."""
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

    def test_a_file_read_to_its_end_may_be_removed(self) -> None:
        """The log itself may be removed, too, with no file in its place."""
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
