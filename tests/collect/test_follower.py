"""Tests of logd.collect.follower: files that grow and appear."""

from __future__ import annotations

from logd.collect.cutting import LineTooLong, LongLines, Rules
from tests.collect.followers import LONG, FollowerTestCase


class GrowthTests(FollowerTestCase):
    """Files that grow and appear."""

    def test_complete_lines_are_read_once(self) -> None:
        """An unfinished one is read when it is complete."""
        self.disk.append("/l/a.log", b"one\ntw")
        self.assertEqual(self.lines(), [b"one"])
        self.assertEqual(self.lines(), [])
        self.disk.append("/l/a.log", b"o\n\n")
        self.assertEqual(self.lines(), [b"two", b""])
        self.noticed()

    def test_files_are_looked_at_in_intervals(self) -> None:
        """In between they are not asked for, however much they grow."""
        self.lines()
        self.disk.append("/l/a.log", b"one\n")
        self.assertEqual(self.lines(0.5), [])
        self.assertAlmostEqual(self.follower.seconds_to_look, 0.5)
        self.assertEqual(self.lines(0.5), [b"one"])

    def test_a_later_file_is_read_from_its_start(self) -> None:
        """Files that are excluded or compressed are not read."""
        self.begin(excluded=lambda path: "secret" in path, patterns=["/l/*"])
        self.lines()
        for name in ("a.log", "b.log", "secret.log", "c.log.gz", "d.zst"):
            self.disk.append(f"/l/{name}", name.encode() + b"\n")
        self.assertEqual(self.lines(), [b"a.log", b"b.log"])

    def test_a_file_under_two_names_is_read_once(self) -> None:
        """Removing one of the names changes nothing but the name that is reported."""
        self.disk.append("/l/a.log", b"one\n")
        self.disk.link("/l/a.log", "/l/b.log")
        self.assertEqual(self.lines(), [b"one"])
        self.disk.remove("/l/a.log")
        self.assertEqual(self.lines(), [])
        self.noticed("/l/a.log is now /l/b.log")

    def test_a_large_file_leaves_turns_to_others(self) -> None:
        """A small log would otherwise wait until the large one is read."""
        self.disk.append("/l/a.log", (b"a" * 999 + b"\n") * 3000)
        self.disk.append("/l/b.log", b"b\n")
        first = self.follower.step()
        self.assertIn([b"b"], [piece.lines for piece in first.pieces])
        self.assertLess(sum(piece.bytes for piece in first.pieces), 2_000_000)

    def test_an_unreadable_file_is_named_once(self) -> None:
        """Reading begins as soon as that is allowed."""
        self.disk.append("/l/a.log", b"one\n")
        self.disk.denied.add("/l/a.log")
        self.assertEqual(self.lines(), [])
        self.assertEqual(self.lines(), [])
        self.noticed("/l/a.log cannot be read: Permission denied")
        self.disk.denied.clear()
        self.assertEqual(self.lines(), [b"one"])

    def test_files_of_a_folder_that_cannot_be_listed_are_not_gone(self) -> None:
        """Nothing is called lost, and nothing is repeated once it can be listed again; what is open is read on."""
        self.begin(open_files=1)
        for name in ("a", "b", "c"):
            self.disk.append(f"/l/{name}.log", b"one of %s\n" % name.encode() + LONG)
        self.assertEqual(len(self.lines()), 6)
        self.disk.hidden = PermissionError(13, "Permission denied")
        self.disk.append("/l/c.log", b"two\n")
        self.disk.append("/l/a.log", b"two\n")
        self.assertEqual(self.lines() + self.lines(100.0), [b"two"])
        self.noticed()
        self.again(once=True)
        self.assertEqual(self.lines(), [])
        self.assertEqual({each.trouble for each in self.follower.tracker.sources.values()}, {"Permission denied"})
        self.notices.clear()
        self.disk.hidden = None
        self.again()
        self.assertEqual(self.lines(), [b"two"])
        self.noticed()

    def test_rotated_files_of_a_folder_that_cannot_be_listed_stay_passed(self) -> None:
        """They are older than the followed file; the next rotation gives them other names."""
        for restarted in (True, False):
            self.setUp()
            self.begin(patterns=["/l/a.log"])
            self.disk.append("/l/a.log.2.gz", b"long before")
            self.disk.append("/l/a.log.1", LONG + b"before\n")
            self.disk.append("/l/a.log", LONG + b"one\n")
            self.assertEqual(self.lines(), [LONG[:-1], b"one"])
            if restarted:
                self.disk.hidden = PermissionError(13, "Permission denied")
                self.again()
            else:
                self.disk.unlisted = True
                self.rotate()
            self.lines()
            self.disk.unlisted, self.disk.hidden = False, None
            self.assertEqual(self.lines(), [])
            self.rotate()
            self.disk.append("/l/a.log", b"two\n")
            self.assertEqual(self.lines(), [b"two"])
            self.assertEqual(self.follower.tracker.losses, 0)

    def test_a_copy_in_a_folder_that_cannot_be_listed_stays_a_copy(self) -> None:
        """Its original is gone, and all its lines were read there."""
        for hidden in (True, False):
            self.setUp()
            self.begin(patterns=["/l/*"])
            self.disk.append("/l/a.log", LONG * 20)
            self.assertEqual(len(self.lines()), 20)
            self.disk.copy("/l/a.log", "/l/a.bak.log")
            self.assertEqual(self.lines(), [])
            (source,) = self.follower.tracker.sources.values()
            self.disk.append("/l/a.log", LONG)
            self.assertEqual(len(self.lines()), 1)
            source.acknowledged = source.mark
            if hidden:
                self.disk.hidden = PermissionError(13, "Permission denied")
            else:
                self.disk.unlisted = True
            self.assertEqual(self.lines(), [])
            self.disk.hidden, self.disk.unlisted = None, False
            self.disk.remove("/l/a.log")
            self.assertEqual(self.lines() + self.lines(100.0) + self.lines(), [])
            self.assertEqual([each.path for each in self.follower.tracker.sources.values()], ["/l/a.bak.log"])

    def rotate(self) -> None:
        """Rename each file of /l/a.log to the next number, and make it anew."""
        for number in range(8, 0, -1):
            for ending in ("", ".gz"):
                if f"/l/a.log.{number}{ending}" in self.disk.names:
                    self.disk.rename(f"/l/a.log.{number}{ending}", f"/l/a.log.{number + 1}{ending}")
        self.disk.rename("/l/a.log", "/l/a.log.1")
        self.disk.create("/l/a.log")

    def test_a_rotated_file_that_cannot_be_opened_at_first_is_not_read_later(self) -> None:
        """It was rotated before its name was followed, though its content could not be looked at."""
        self.begin(patterns=["/l/a.log"])
        self.disk.append("/l/a.log.1", LONG + b"before\n")
        self.disk.append("/l/a.log", LONG + b"one\n")
        self.disk.denied.add("/l/a.log.1")
        self.assertEqual(self.lines(), [LONG[:-1], b"one"])
        self.disk.denied.clear()
        self.rotate()
        self.disk.append("/l/a.log", b"two\n")
        self.assertEqual(self.lines(), [b"two"])

    def test_following_may_begin_at_the_end(self) -> None:
        """An unfinished line and files that appear later are read whole."""
        self.disk.append("/l/a.log", b"old\nbegun")
        self.begin(from_end=True)
        self.assertEqual(self.lines(), [])
        self.disk.append("/l/a.log", b" before\n")
        self.disk.append("/l/b.log", b"new\n")
        self.assertEqual(self.lines(), [b"begun before", b"new"])
        self.noticed()

    def test_what_a_file_had_is_skipped_once_it_can_be_read(self) -> None:
        """Lines that it got meanwhile are read."""
        self.disk.append("/l/a.log", b"old\n")
        self.disk.denied.add("/l/a.log")
        self.begin(from_end=True)
        self.assertEqual(self.lines() + self.lines(), [])
        self.noticed("Permission denied")
        self.disk.append("/l/a.log", b"new\n")
        self.disk.denied.clear()
        self.assertEqual(self.lines(), [b"new"])

    def test_what_a_file_had_is_skipped_after_a_restart_too(self) -> None:
        """The state says how much of it is to be skipped."""
        self.disk.append("/l/a.log", b"old\nbegun")
        self.disk.denied.add("/l/a.log")
        self.begin(from_end=True)
        self.assertEqual(self.lines(), [])
        self.disk.append("/l/a.log", b" before\nnew\n")
        for _ in range(2):
            self.again(from_end=False)
            self.assertEqual(self.lines(), [])
        self.disk.denied.clear()
        self.assertEqual(self.lines(), [b"begun before", b"new"])
        self.again()
        self.assertEqual(self.lines(), [])
        self.assertEqual(self.follower.tracker.losses, 0)

    def test_what_was_to_be_skipped_is_not_lost(self) -> None:
        """The file is removed, or emptied and filled anew, before it could be read."""
        for restarted in (False, True):
            for emptied in (False, True):
                self.setUp()
                self.disk.append("/l/a.log", b"old one\n")
                self.disk.denied.add("/l/a.log")
                self.begin(from_end=True)
                self.assertEqual(self.lines(), [])
                if restarted:
                    self.again(from_end=False)
                    self.assertEqual(self.lines(), [])
                if emptied:
                    self.disk.truncate("/l/a.log")
                    self.disk.append("/l/a.log", b"new\n")
                else:
                    self.disk.remove("/l/a.log")
                self.disk.denied.clear()
                self.assertEqual(self.lines(), [b"new"] * emptied)
                self.assertEqual((self.follower.tracker.losses, self.follower.tracker.lost), (0, 0))

    def test_a_single_pass_looks_once(self) -> None:
        """Lines that come later are for the next one."""
        self.disk.append("/l/a.log", b"one\n")
        self.begin(once=True)
        self.assertEqual(self.lines(), [b"one"])
        self.disk.append("/l/a.log", b"two\n")
        self.assertEqual(self.lines(100.0), [])

    def test_a_quiet_unfinished_line_can_be_taken(self) -> None:
        """With flush_partial it is taken once its file has not changed for so long."""
        self.begin(flush_partial=5.0)
        self.disk.append("/l/a.log", b"on")
        self.assertEqual(self.lines(), [])
        self.disk.append("/l/a.log", b"e")
        self.assertEqual(self.lines(4.0), [])
        self.assertEqual(self.lines(4.0), [])
        self.assertEqual(self.lines(4.0), [b"one"])
        self.disk.append("/l/a.log", b" more\n")
        self.assertEqual(self.lines(), [b" more"])

    def test_long_lines_follow_their_policy(self) -> None:
        """A long line is split, skipped with a notice, or ends the collector with its place."""
        policies: tuple[tuple[LongLines, list[bytes]], ...] = (
            ("split", [b"x" * 50, b"x" * 20, b"y"]),
            ("skip", [b"y"]),
        )
        for policy, expected in policies:
            self.setUp()
            self.begin(rules=Rules(50, policy))
            self.disk.append("/l/a.log", LONG + b"y\n")
            self.assertEqual(self.lines(), expected)
        self.noticed("skipped, 71 bytes")
        self.assertEqual(self.follower.skipped, 71)
        self.setUp()
        self.begin(rules=Rules(50, "fail"))
        self.disk.append("/l/a.log", b"ok\n" + LONG)
        with self.assertRaisesRegex(LineTooLong, "/l/a.log, after byte 0: a line is longer than 50 bytes"):
            self.lines()

    def test_an_unfinished_long_line_is_split_at_once(self) -> None:
        """The rest follows when it is complete, or with flush_partial."""
        self.begin(rules=Rules(50), flush_partial=10.0)
        self.disk.append("/l/a.log", b"x" * 120)
        self.assertEqual(self.lines(), [b"x" * 50, b"x" * 50])
        self.disk.append("/l/a.log", b"\n")
        self.assertEqual(self.lines(), [b"x" * 20])
        self.disk.append("/l/a.log", b"y" * 50)
        self.assertEqual(self.lines(), [])
        self.disk.append("/l/a.log", b"y" * 20)
        self.assertEqual(self.lines(), [b"y" * 50])
        self.assertEqual(self.lines(10.0), [b"y" * 20])

    def test_a_skipped_line_stays_skipped_after_a_restart(self) -> None:
        """The end of the line must not be taken for a line of its own."""
        self.begin(rules=Rules(300_000, "skip"))
        self.disk.append("/l/a.log", b"one\n")
        self.lines()
        self.disk.append("/l/a.log", b"x" * 400_000)
        self.assertEqual(self.lines(), [])
        acknowledged = next(iter(self.follower.tracker.sources.values()))
        self.assertEqual((acknowledged.mark.position, acknowledged.skipping), (400_004, True))
        self.disk.append("/l/a.log", b"x\ntwo\n")
        self.assertEqual(self.lines(), [b"two"])
        self.noticed("400,002 bytes")
