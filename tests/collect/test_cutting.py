"""Tests of logd.collect.cutting: bytes become lines."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.collect.cutting import Cut, LineTooLong, LongLines, Rules, cut

CONTENT = st.lists(st.sampled_from([b"\n", b"a", b"\r", b"bcdefg", b"\x00\xff"]), max_size=30).map(b"".join)


def all_lines(data: bytes, rules: Rules, window: int) -> tuple[list[bytes], int]:
    """Return the lines of a file that is read in windows, and the number of bytes left out."""
    lines: list[bytes] = []
    at = skipped = 0
    skipping = False
    while at < len(data):
        found = cut(data[at : at + window], rules, at + window >= len(data), skipping)
        assert found.used, "no progress"
        lines += found.lines
        at += found.used
        skipped += found.skipped
        skipping = found.skipping
    return lines, skipped


class CutTests(SynchronousTestCase):
    """``cut``."""

    @settings(deadline=None, max_examples=200)
    @given(CONTENT, st.integers(1, 8), st.integers(1, 20))
    def test_lines_do_not_depend_on_the_window(self, data: bytes, limit: int, more: int) -> None:
        """Lines within the limit are as they are; longer ones are split or left out."""
        whole = data.removesuffix(b"\n").split(b"\n") if data else []
        split = [line[at : at + limit] for line in whole for at in range(0, len(line) or 1, limit)]
        short = [line for line in whole if len(line) <= limit]
        self.assertEqual(all_lines(data, Rules(limit, "split"), limit + more), (split, 0))
        lines, skipped = all_lines(data, Rules(limit, "skip"), limit + more)
        self.assertEqual(lines, short)
        self.assertEqual(skipped > 0, len(short) < len(whole))

    def test_an_unfinished_line_waits(self) -> None:
        """At the end of a file that is complete it is taken."""
        for policy in ("split", "skip", "fail"):
            rules = Rules(10, policy)
            self.assertEqual(cut(b"one\ntwo", rules), Cut([b"one"], 4))
            self.assertEqual(cut(b"two", rules), Cut([], 0))
            self.assertEqual(cut(b"one\ntwo", rules, whole=True), Cut([b"one", b"two"], 7))
            self.assertEqual(cut(b"", rules, whole=True), Cut([], 0))

    def test_a_line_may_have_exactly_the_limit(self) -> None:
        """One byte more is too long, whether the line is finished or not."""
        policies: tuple[tuple[LongLines, Cut, Cut], ...] = (
            ("split", Cut([b"abc", b"d"], 5), Cut([b"abc"], 3)),
            ("skip", Cut([], 5, 5), Cut([], 4, 4, True)),
        )
        for policy, finished, unfinished in policies:
            self.assertEqual(cut(b"abc\n", Rules(3, policy)), Cut([b"abc"], 4))
            self.assertEqual(cut(b"abc", Rules(3, policy)), Cut([], 0))
            self.assertEqual(cut(b"abcd\n", Rules(3, policy)), finished)
            self.assertEqual(cut(b"abcd", Rules(3, policy)), unfinished)

    def test_a_line_too_long_can_be_an_error(self) -> None:
        """With the policy "fail" it is one, whether the line is finished or not."""
        rules = Rules(3, "fail")
        self.assertEqual(cut(b"abc\n", rules), Cut([b"abc"], 4))
        for data in (b"abcd\n", b"abcd", b"a\nabcd\nb\n"):
            with self.assertRaises(LineTooLong):
                cut(data, rules)
