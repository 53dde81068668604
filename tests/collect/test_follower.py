"""Tests of following files: each way in which a file can change, one at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.collect.cutting import LineTooLong, LongLines, Rules
from logd.collect.follower import Follower, FollowSettings
from logd.collect.source import Source
from logd.collect.state import decode_state, encode_state
from tests.collect.memory import MemoryDisk

LONG = b"x" * 70 + b"\n"


class FollowerTestCase(SynchronousTestCase):
    """A disk in memory and a follower of /l/*.log."""

    def setUp(self) -> None:
        """Begin with nothing."""
        self.disk = MemoryDisk()
        self.now = 0.0
        self.notices: list[str] = []
        self.options: dict[str, Any] = {}
        self.follower = self.begin()

    def begin(self, restored: Iterable[Source] = (), **more: Any) -> Follower:
        """A new follower."""
        self.options = {"patterns": ["/l/*.log"], "rules": Rules(1000), **self.options, **more}
        self.follower = Follower(self.disk, lambda: self.now, FollowSettings(**self.options), restored)
        return self.follower

    def again(self, **more: Any) -> Follower:
        """A new follower that goes on from the state of this one."""
        for source in self.follower.catalogue.sources.values():
            source.acknowledged = source.mark
        state = encode_state("t", self.follower.catalogue.sources.values())
        self.disk.crash()
        return self.begin(decode_state(state, "t"), **more)

    def lines(self, seconds: float = 1.0) -> list[bytes]:
        """What the next looks and steps bring, until there is nothing more."""
        self.now += seconds
        found = []
        for _ in range(100):
            harvest = self.follower.step()
            self.notices += harvest.notices
            found += [line for piece in harvest.pieces for line in piece.lines]
            if harvest.idle and not harvest.pieces:
                return found
        self.fail("it does not come to rest")

    def noticed(self, *words: str) -> None:
        """There was one notice since the last time, with these words; none without words."""
        self.assertEqual(len(self.notices), bool(words), self.notices)
        for word in words:
            self.assertIn(word, self.notices[0])
        self.notices.clear()


class GrowthTests(FollowerTestCase):
    """Files that grow and appear."""

    def test_growth(self) -> None:
        """Complete lines are read once; the unfinished one when it is complete."""
        self.disk.append("/l/a.log", b"one\ntw")
        self.assertEqual(self.lines(), [b"one"])
        self.assertEqual(self.lines(), [])
        self.disk.append("/l/a.log", b"o\n\n")
        self.assertEqual(self.lines(), [b"two", b""])
        self.noticed()

    def test_poll(self) -> None:
        """Between looks files are not asked for."""
        self.lines()
        self.disk.append("/l/a.log", b"one\n")
        self.assertEqual(self.lines(0.5), [])
        self.assertAlmostEqual(self.follower.seconds_to_look, 0.5)
        self.assertEqual(self.lines(0.5), [b"one"])

    def test_new_files(self) -> None:
        """A file that appears later is read from its start, one that matches nothing or is excluded is not read."""
        self.begin(excluded=lambda path: "secret" in path, patterns=["/l/*"])
        self.lines()
        for name in ("a.log", "b.log", "secret.log", "c.log.gz", "d.zst"):
            self.disk.append(f"/l/{name}", name.encode() + b"\n")
        self.assertEqual(self.lines(), [b"a.log", b"b.log"])

    def test_hard_link(self) -> None:
        """A file under two names is read once."""
        self.disk.append("/l/a.log", b"one\n")
        self.disk.link("/l/a.log", "/l/b.log")
        self.assertEqual(self.lines(), [b"one"])
        self.disk.remove("/l/a.log")
        self.assertEqual(self.lines(), [])
        self.noticed("/l/a.log is now /l/b.log")

    def test_turns(self) -> None:
        """A large file does not keep the others waiting."""
        self.disk.append("/l/a.log", (b"a" * 999 + b"\n") * 3000)
        self.disk.append("/l/b.log", b"b\n")
        first = self.follower.step()
        self.assertIn([b"b"], [piece.lines for piece in first.pieces])
        self.assertLess(sum(piece.bytes for piece in first.pieces), 2_000_000)

    def test_unreadable(self) -> None:
        """What cannot be read is named once, and read when it can be."""
        self.disk.append("/l/a.log", b"one\n")
        self.disk.denied.add("/l/a.log")
        self.assertEqual(self.lines(), [])
        self.assertEqual(self.lines(), [])
        self.noticed("/l/a.log cannot be read: Permission denied")
        self.disk.denied.clear()
        self.assertEqual(self.lines(), [b"one"])

    def test_from_end(self) -> None:
        """Begun at the end, what is there is left out but for an unfinished line; what appears later is not."""
        self.disk.append("/l/a.log", b"old\nbegun")
        self.begin(from_end=True)
        self.assertEqual(self.lines(), [])
        self.disk.append("/l/a.log", b" before\n")
        self.disk.append("/l/b.log", b"new\n")
        self.assertEqual(self.lines(), [b"begun before", b"new"])
        self.noticed()

    def test_once(self) -> None:
        """Asked for once it looks once."""
        self.disk.append("/l/a.log", b"one\n")
        self.begin(once=True)
        self.assertEqual(self.lines(), [b"one"])
        self.disk.append("/l/a.log", b"two\n")
        self.assertEqual(self.lines(100.0), [])

    def test_flush_partial(self) -> None:
        """If that is asked for an unfinished line is taken once its file has been quiet for so long."""
        self.begin(flush_partial=5.0)
        self.disk.append("/l/a.log", b"on")
        self.assertEqual(self.lines(), [])
        self.disk.append("/l/a.log", b"e")
        self.assertEqual(self.lines(4.0), [])
        self.assertEqual(self.lines(4.0), [])
        self.assertEqual(self.lines(4.0), [b"one"])
        self.disk.append("/l/a.log", b" more\n")
        self.assertEqual(self.lines(), [b" more"])

    def test_long_lines(self) -> None:
        """Over-long lines are split, left out with a notice, or the end with the place."""
        policies: tuple[tuple[LongLines, list[bytes]], ...] = (
            ("split", [b"x" * 50, b"x" * 20, b"y"]),
            ("skip", [b"y"]),
        )
        for policy, expected in policies:
            self.setUp()
            self.begin(rules=Rules(50, policy))
            self.disk.append("/l/a.log", LONG + b"y\n")
            self.assertEqual(self.lines(), expected)
        self.noticed("left out, 71 bytes")
        self.assertEqual(self.follower.skipped, 71)
        self.setUp()
        self.begin(rules=Rules(50, "fail"))
        self.disk.append("/l/a.log", b"ok\n" + LONG)
        with self.assertRaisesRegex(LineTooLong, "/l/a.log, behind byte 0: a line is longer than 50 bytes"):
            self.lines()

    def test_long_line_restarted(self) -> None:
        """A line that is being left out when the collector ends is left out as a whole by the next one."""
        self.begin(rules=Rules(300_000, "skip"))
        self.disk.append("/l/a.log", b"one\n")
        self.lines()
        self.disk.append("/l/a.log", b"x" * 400_000)
        self.assertEqual(self.lines(), [])
        acknowledged = next(iter(self.follower.catalogue.sources.values()))
        self.assertEqual((acknowledged.mark.position, acknowledged.skipping), (400_004, True))
        self.disk.append("/l/a.log", b"x\ntwo\n")
        self.assertEqual(self.lines(), [b"two"])
        self.noticed("400002 bytes")


class RotationTests(FollowerTestCase):
    """Files that are renamed, copied, emptied, removed, made again."""

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
        self.again()
        self.disk.remove("/l/a.log")
        self.disk.append("/l/a.log", b"two\nand more\n")
        self.assertEqual(self.disk.names["/l/a.log"].inode, inode)
        self.assertEqual(self.lines(), [b"two", b"and more"])
        self.noticed("was emptied or overwritten, reading from its start")
        self.again()
        self.disk.remove("/l/a.log")
        self.disk.append("/l/a.log", b"six\nand more\n")
        self.assertEqual(self.lines(), [b"six", b"and more"])

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
        self.noticed("/l/a.log is gone: it was read up to byte 0, 4 bytes or more are lost")
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
            self.noticed("/l/a.log was emptied or overwritten, reading from its start")
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
        self.noticed("read up to byte 4, what came behind it is lost: 4 bytes, or as many as there were")

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
            self.noticed("/l/a.log was emptied; /l/a.log.1 is its copy, 5 bytes are left to read")
            self.assertEqual(self.lines(), [])

    def test_copy_seen_first(self) -> None:
        """A copy that is found before its original is emptied is not read, also by the next collector."""
        self.begin(patterns=["/l/*"])
        self.disk.append("/l/a.log", LONG * 5)
        self.lines()
        for count in (100, 200, 355):
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
