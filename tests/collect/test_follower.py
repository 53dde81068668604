"""Tests of following files that grow and appear."""

from __future__ import annotations

from logd.collect.cutting import LineTooLong, LongLines, Rules
from tests.collect.following import LONG, FollowerTestCase


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
        self.noticed("skipped, 71 bytes")
        self.assertEqual(self.follower.skipped, 71)
        self.setUp()
        self.begin(rules=Rules(50, "fail"))
        self.disk.append("/l/a.log", b"ok\n" + LONG)
        with self.assertRaisesRegex(LineTooLong, "/l/a.log, after byte 0: a line is longer than 50 bytes"):
            self.lines()

    def test_long_line_unfinished(self) -> None:
        """Of an unfinished line all that is over-long is sent at once; the rest when it is complete, or asked for."""
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

    def test_long_line_restarted(self) -> None:
        """A line that is being left out when the collector ends is left out as a whole by the next one."""
        self.begin(rules=Rules(300_000, "skip"))
        self.disk.append("/l/a.log", b"one\n")
        self.lines()
        self.disk.append("/l/a.log", b"x" * 400_000)
        self.assertEqual(self.lines(), [])
        acknowledged = next(iter(self.follower.tracker.sources.values()))
        self.assertEqual((acknowledged.mark.position, acknowledged.skipping), (400_004, True))
        self.disk.append("/l/a.log", b"x\ntwo\n")
        self.assertEqual(self.lines(), [b"two"])
        self.noticed("400002 bytes")
