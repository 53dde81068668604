"""Tests of the end of ``logd collect --once``."""

from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO

from logd.cli.messages.collect import NotAllCollected, check_collected
from tests.collect.followers import FollowerTestCase


class CollectedOnceTests(FollowerTestCase):
    """``check_collected``."""

    def told(self) -> str:
        """Return what is written on stderr."""
        self.lines()
        with redirect_stderr(StringIO()) as written:
            check_collected(self.follower, False)
        return written.getvalue()

    def test_a_last_line_without_a_newline_is_told(self) -> None:
        """It may be all that a file has, and no later run may come."""
        self.begin(once=True)
        self.disk.append("/l/a.log", b"one\n")
        self.disk.append("/l/b.log", b"one\ntwo")
        self.assertEqual(
            self.told(),
            "logd: /l/b.log ends without a newline: its last line, 3 bytes, is left for the next run "
            "(--flush-partial 0 sends it)\n",
        )
        self.begin(once=True, flush_partial=0.0)
        self.assertEqual(self.told(), "")

    def test_a_state_that_is_not_saved_is_a_failure(self) -> None:
        """The next run sends the same lines again."""
        with self.assertRaisesRegex(NotAllCollected, "the state could not be saved"):
            check_collected(self.follower, True)
