"""Tests of the end of ``logd collect --once``."""

from __future__ import annotations

import resource
from contextlib import redirect_stderr
from io import StringIO

from twisted.trial.unittest import SynchronousTestCase

from logd.cli.messages.collect import OTHER_DESCRIPTORS, NotAllCollected, check_collected, may_open
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


class OpenFilesTests(SynchronousTestCase):
    """``may_open``."""

    def test_as_many_files_are_open_as_there_are_descriptors(self) -> None:
        """With none left no folder could be listed, and no further file be followed."""
        for limits, raised, most in (
            ((64, 1 << 20), 164, 100),
            ((1024, 1024), None, 100),
            ((100, 120), 120, 120 - OTHER_DESCRIPTORS),
            ((40, 40), None, 1),
            ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None, 100),
        ):
            set_to: list[tuple[int, int]] = []
            self.patch(resource, "getrlimit", lambda _, limits=limits: limits)
            self.patch(resource, "setrlimit", lambda _, new, set_to=set_to: set_to.append(new))
            with redirect_stderr(StringIO()) as written:
                self.assertEqual(may_open(100), most)
            self.assertEqual(set_to, [(raised, limits[1])] if raised else [])
            self.assertEqual(f"at most {most} files are open" in written.getvalue(), most < 100)
