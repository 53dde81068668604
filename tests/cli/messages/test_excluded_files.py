"""Tests of the files that ``logd collect`` leaves out."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.cli.messages.collect import excluder


class ExcludedFilesTests(SynchronousTestCase):
    """``excluder``."""

    def test_the_state_file_alone_is_its_own(self) -> None:
        """A log whose name begins like that of the state file is read; the state file would grow by being read."""
        excluded = excluder((), "/l/web")
        self.assertEqual([each for each in ("/l/web", "/l/web.lock", "/l/web.tmp") if not excluded(each)], [])
        self.assertEqual([each for each in ("/l/web.log", "/l/web.log.1", "/l/web-2", "/m/web") if excluded(each)], [])

    def test_patterns_are_of_names_and_of_paths(self) -> None:
        """Either excludes a file."""
        excluded = excluder(("*.bak", "/l/private/*"), "/s/state")
        self.assertEqual([excluded(each) for each in ("/l/a.bak", "/l/private/a", "/l/a")], [True, True, False])
